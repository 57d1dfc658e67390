//! etcd's own lock: its service `v3lockpb.Lock`, with a lease that each caller has made before.

use anyhow::{Result, ensure};
use tonic::transport::Channel;

use crate::etcd_call::call;

/// Longer than all rounds take.
const TTL_SECONDS: i64 = 3600;

/// One who wants a lock.
pub(crate) struct EtcdLock {
    channel: Channel,
    name: String,
    lease: i64,
}

impl EtcdLock {
    pub(crate) async fn new(channel: Channel, name: String) -> Result<Self> {
        let lease = LeaseGrantRequest { ttl: TTL_SECONDS };
        let lease: LeaseGrantResponse =
            call(&channel, "/etcdserverpb.Lease/LeaseGrant", lease).await?;
        Ok(Self { channel, name, lease: lease.id })
    }

    /// Waits for as long as someone else has it. The key is what it is given back by.
    pub(crate) async fn lock(&self) -> Result<Vec<u8>> {
        let request = LockRequest { name: self.name.clone().into_bytes(), lease: self.lease };
        let LockResponse { key } = call(&self.channel, "/v3lockpb.Lock/Lock", request).await?;
        ensure!(!key.is_empty(), "no key");
        Ok(key)
    }

    pub(crate) async fn unlock(&self, key: Vec<u8>) -> Result<()> {
        let request = UnlockRequest { key };
        let UnlockResponse {} = call(&self.channel, "/v3lockpb.Lock/Unlock", request).await?;
        Ok(())
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockResponse {}

//! etcd's own lock: its service `v3lockpb.Lock`, with a lease that each caller has made before.

use std::fmt::Display;
use std::path::Path;

use anyhow::{Result, ensure};
use tenure_testkit::servers::Server;
use tenure_testkit::servers::etcd::alone;
use tonic::transport::Channel;

/// Longer than all rounds take.
const TTL_SECONDS: i64 = 3600;

/// One member that keeps its files in this folder.
pub(crate) fn start(folder: &Path) -> Result<Server> {
    let files = folder.join("etcd").display().to_string();
    alone(&[&format!("--data-dir={files}")])
}

pub(crate) async fn connect(address: impl Display) -> Result<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}"))?;
    Ok(endpoint.tcp_nodelay(true).connect().await?)
}

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

async fn call<Q, A>(channel: &Channel, path: &'static str, request: Q) -> Result<A>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await?;
    let path = http::uri::PathAndQuery::from_static(path);
    let codec = tonic_prost::ProstCodec::<Q, A>::default();
    Ok(client.unary(tonic::Request::new(request), path, codec).await?.into_inner())
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

//! etcd's own lock: its service `v3lockpb.Lock`, with a lease that each caller has made before.

use std::path::Path;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use tenure_testkit::servers::Server;
use tenure_testkit::servers::etcd::alone;
use tonic::transport::Channel;

use super::caller::{Caller, Crowd};

/// Longer than all rounds take.
const TTL_SECONDS: i64 = 3600;

/// One member that keeps its files in this folder.
pub(super) fn start(folder: &Path) -> Result<Server> {
    let files = folder.join("etcd").display().to_string();
    alone(&[&format!("--data-dir={files}")])
}

/// So many callers over so many connections.
pub(super) async fn callers(server: &Server, count: usize, connections: usize) -> Result<Crowd> {
    let mut channels = Vec::new();
    for _ in 0..connections {
        let endpoint = Channel::from_shared(format!("http://{}", server.address()))?;
        channels.push(endpoint.tcp_nodelay(true).connect().await?);
    }
    let mut crowd = Crowd::default();
    for at in 0..count {
        let channel = channels[at % connections].clone();
        let lease = LeaseGrantRequest { ttl: TTL_SECONDS };
        let lease: LeaseGrantResponse =
            call(&channel, "/etcdserverpb.Lease/LeaseGrant", lease).await?;
        crowd.push(EtcdLock { channel, name: format!("lock{at}"), lease: lease.id });
    }
    Ok(crowd)
}

struct EtcdLock {
    channel: Channel,
    name: String,
    lease: i64,
}

#[async_trait]
impl Caller for EtcdLock {
    async fn cycle(&mut self) -> Result<()> {
        let request = LockRequest { name: self.name.clone().into_bytes(), lease: self.lease };
        let LockResponse { key } = call(&self.channel, "/v3lockpb.Lock/Lock", request).await?;
        ensure!(!key.is_empty(), "no key");
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

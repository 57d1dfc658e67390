//! Calls to etcd, without anything of tenure.

use std::fmt::Display;

use anyhow::Result;
use tonic::transport::Channel;

pub(crate) async fn connect(address: impl Display) -> Result<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}"))?;
    Ok(endpoint.tcp_nodelay(true).connect().await?)
}

/// Sends the request to the method at this path; its answer.
pub(crate) async fn call<Q, A>(channel: &Channel, path: &'static str, request: Q) -> Result<A>
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

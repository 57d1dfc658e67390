//! gRPC by bytes: calls of methods and messages that no generated client would make.

use std::time::Duration;

use bytes::{Buf, BufMut};
use futures_util::StreamExt;
use futures_util::stream::{iter, pending};
use tenure::clock::{SystemClock, within};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

/// No answer in these tests takes longer than this. It is far more than any should take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What comes back, message by message.
pub(crate) type Answers = Streaming<Vec<u8>>;

/// Calls a method that takes one message, whether it answers with one or with many.
pub(crate) async fn call(
    channel: &Channel,
    path: &str,
    token: Option<&str>,
    message: Vec<u8>,
) -> Result<Answers, Status> {
    let mut grpc = Grpc::new(channel.clone());
    let request = with_token(Request::new(message), token);
    let work = async {
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        grpc.server_streaming(request, path.parse().unwrap(), Bytes).await
    };
    let answer = within(&SystemClock, LIMIT, work).await;
    answer.unwrap_or_else(|_| panic!("no answer to {path}")).map(tonic::Response::into_inner)
}

/// Calls a method that takes many messages, with these; more would have followed.
pub(crate) async fn converse(
    channel: &Channel,
    path: &str,
    token: Option<&str>,
    messages: Vec<Vec<u8>>,
) -> Result<Answers, Status> {
    let mut grpc = Grpc::new(channel.clone());
    let request = with_token(Request::new(iter(messages).chain(pending())), token);
    let work = async {
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        grpc.streaming(request, path.parse().unwrap(), Bytes).await
    };
    let answer = within(&SystemClock, LIMIT, work).await;
    answer.unwrap_or_else(|_| panic!("no answer to {path}")).map(tonic::Response::into_inner)
}

fn with_token<T>(mut request: Request<T>, token: Option<&str>) -> Request<T> {
    if let Some(token) = token {
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
    }
    request
}

/// Messages as bytes, whatever is in them.
#[derive(Clone, Copy, Debug)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let size = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(size).to_vec()))
    }
}

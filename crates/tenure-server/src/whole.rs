//! The bodies of requests: how long they may take, how many are read at once, and that no answer
//! overtakes them.
//!
//! An answer that overtakes the body resets the stream of HTTP/2, and a client may take that for a
//! failure of the connection and never see the answer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tenure::clock::{Clock, Sleep, SystemClock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::door::is_grpc;
use crate::failure::Failure;
use crate::http::body::{BYTES_MAX, pass_over, read};
use crate::idle::Traffic;

/// How long a body may take from when it is first asked for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many bodies of one connection are read at once. What others send waits with them, which
/// HTTP/2 bounds for the connection as a whole.
pub(crate) const AT_ONCE: usize = 16;

/// Calls whose requests go on for as long as the client likes.
const ENDLESS: [&str; 3] = [
    "/tenure.v1.StoreService/Exchange",
    "/tenure.v1.StoreService/WatchKeys",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

/// Bounds the body of a request, whoever reads it.
pub(crate) fn bounded(request: http::Request<Incoming>, traffic: &Traffic) -> Request {
    if request.body().is_end_stream() || ENDLESS.contains(&request.uri().path()) {
        return request.map(Body::new);
    }
    let desks = Arc::clone(traffic.desks());
    request.map(|body| Body::new(Bounded::new(body, desks)))
}

/// Hands a request on with its whole body.
pub(crate) async fn whole(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match read(body, BYTES_MAX).await {
        Ok(bytes) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Err(failure) => failure.into_response(),
    }
}

/// Passes over the body of a request that is turned away.
pub(crate) async fn drain(request: Request) {
    if !is_grpc(request.headers()) {
        pass_over(request.into_body()).await;
    }
}

/// A body that is read when there is a desk for it, and has to come in time then.
struct Bounded<B> {
    body: B,
    desk: Desk,
    alarm: Option<Sleep>,
}

enum Desk {
    None(Arc<Semaphore>),
    Awaited(Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>),
    Taken { _desk: Option<OwnedSemaphorePermit> },
}

impl<B> Bounded<B> {
    fn new(body: B, desks: Arc<Semaphore>) -> Self {
        Self { body, desk: Desk::None(desks), alarm: None }
    }
}

impl Desk {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            *self = match self {
                Self::Taken { .. } => return Poll::Ready(()),
                Self::Awaited(desk) => Self::Taken { _desk: ready!(desk.as_mut().poll(cx)) },
                Self::None(desks) => match Arc::clone(desks).try_acquire_owned() {
                    Ok(desk) => Self::Taken { _desk: Some(desk) },
                    Err(_) => {
                        let desks = Arc::clone(desks);
                        Self::Awaited(Box::pin(async move { desks.acquire_owned().await.ok() }))
                    }
                },
            };
        }
    }
}

impl<B> HttpBody for Bounded<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        ready!(self.desk.poll(cx));
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            // Most bodies are there with their head; only the others pay for a timer.
            let alarm = self
                .alarm
                .get_or_insert_with(|| SystemClock.sleep_until(SystemClock.now() + PATIENCE));
            ready!(alarm.as_mut().poll(cx));
            return Poll::Ready(Some(Err(axum::Error::new(late()))));
        };
        if frame.is_none() {
            self.desk = Desk::Taken { _desk: None };
        }
        Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> fmt::Debug for Bounded<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounded").finish_non_exhaustive()
    }
}

/// In the form that gRPC finds behind an error by itself.
fn late() -> Status {
    Failure::invalid(format!("the body took longer than {PATIENCE:?}")).into()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::stream::{self, StreamExt};
    use http_body_util::BodyExt;

    use super::*;

    fn endless() -> Body {
        Body::from_stream(stream::iter([Ok::<_, axum::Error>("x")]).chain(stream::pending()))
    }

    #[tokio::test]
    async fn only_so_many_bodies_are_read_at_once() {
        let desks = Arc::new(Semaphore::new(1));
        let mut first = Bounded::new(endless(), Arc::clone(&desks));
        assert!(first.frame().now_or_never().is_some());
        let mut second = Bounded::new(Body::from("y"), Arc::clone(&desks));
        assert!(second.frame().now_or_never().is_none(), "the first is not at its end");
        drop(first);
        assert!(second.frame().now_or_never().is_some());
        assert_eq!(desks.available_permits(), 0);
        assert!(second.frame().await.is_none());
        assert_eq!(desks.available_permits(), 1, "whoever has read its body needs no desk");
    }
}

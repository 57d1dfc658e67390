//! Finds connections on which nothing is under way.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tenure::clock::Clock;
use tokio::sync::Notify;

/// What is under way on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    under_way: AtomicUsize,
    begun: AtomicUsize,
    ended: Notify,
}

impl Traffic {
    fn begin(&self) -> UnderWay {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(&self.0))
    }

    /// Returns when nothing was under way for a time: `first` from the beginning, `later` after a
    /// request.
    pub(crate) async fn idle(&self, clock: &dyn Clock, first: Duration, later: Duration) {
        loop {
            let begun = self.0.begun.load(Ordering::Relaxed);
            if self.0.under_way.load(Ordering::Relaxed) > 0 {
                self.0.ended.notified().await;
                continue;
            }
            let patience = if begun == 0 { first } else { later };
            clock.sleep_until(clock.now() + patience).await;
            if self.0.begun.load(Ordering::Relaxed) == begun {
                return;
            }
        }
    }
}

/// A request that is under way: from its head to the end of its answer.
#[derive(Debug)]
struct UnderWay(Arc<Counts>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.ended.notify_one();
    }
}

/// Counts a request until the last byte of its answer.
pub(crate) async fn count(
    Extension(traffic): Extension<Traffic>,
    request: Request,
    next: Next,
) -> Response {
    let under_way = traffic.begin();
    next.run(request).await.map(|body| Body::new(Counted { body, _under_way: under_way }))
}

struct Counted {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tenure::clock::SystemClock;

    use super::*;

    #[tokio::test]
    async fn a_request_under_way_is_not_idle() {
        let traffic = Traffic::default();
        let under_way = traffic.begin();
        let (first, later) = (Duration::from_secs(3600), Duration::from_millis(1));
        let idle = traffic.idle(&SystemClock, first, later);
        let soon = tenure::clock::within(&SystemClock, Duration::from_millis(50), idle).await;
        assert!(soon.is_err());
        drop(under_way);
        traffic.idle(&SystemClock, first, later).await;
    }
}

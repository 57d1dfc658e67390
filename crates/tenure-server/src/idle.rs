//! Finds connections on which nothing is under way.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tenure::clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, Semaphore};

/// What is under way on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Traffic(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    under_way: AtomicUsize,
    begun: AtomicUsize,
    /// Part of a head has come, and no more of it yet.
    heard: AtomicBool,
    /// More than requests is heard on this connection: it is one of HTTP/2.
    talks: AtomicBool,
    changed: Notify,
    desks: Arc<Semaphore>,
}

impl Traffic {
    /// Nothing is under way, and so many bodies may be read at once.
    pub(crate) fn new(desks: usize) -> Self {
        Self(Arc::new(Counts {
            under_way: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            heard: AtomicBool::new(false),
            talks: AtomicBool::new(false),
            changed: Notify::new(),
            desks: Arc::new(Semaphore::new(desks)),
        }))
    }

    /// Where the bodies of this connection are read.
    pub(crate) fn desks(&self) -> &Arc<Semaphore> {
        &self.0.desks
    }

    pub(crate) fn begin(&self, version: Version) -> UnderWay {
        self.0.talks.store(version == Version::HTTP_2, Ordering::Relaxed);
        self.0.heard.store(false, Ordering::Relaxed);
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(&self.0))
    }

    /// Something came. Between two requests of HTTP/1 that is the beginning of a head.
    fn hear(&self) {
        let Counts { under_way, talks, heard, changed, .. } = &*self.0;
        let waits = under_way.load(Ordering::Relaxed) == 0 && !talks.load(Ordering::Relaxed);
        if waits && !heard.swap(true, Ordering::Relaxed) {
            changed.notify_one();
        }
    }

    /// Returns when nothing was under way for a time: `first` from the beginning and for the rest
    /// of a head, `later` after a request.
    pub(crate) async fn idle(&self, clock: &dyn Clock, first: Duration, later: Duration) {
        loop {
            let begun = self.0.begun.load(Ordering::Relaxed);
            if self.0.under_way.load(Ordering::Relaxed) > 0 {
                self.0.changed.notified().await;
                continue;
            }
            let in_head = begun == 0 || self.0.heard.load(Ordering::Relaxed);
            let patience = if in_head { first } else { later };
            tokio::select! {
                biased;
                () = self.0.changed.notified() => {}
                () = clock.sleep_until(clock.now() + patience) => {
                    if self.0.begun.load(Ordering::Relaxed) == begun {
                        return;
                    }
                }
            }
        }
    }
}

/// A request that is under way: from its head to the end of its answer.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Counts>);

impl UnderWay {
    /// An answer that counts until its last byte.
    pub(crate) fn until_sent(self, response: Response) -> Response {
        response.map(|body| Body::new(Counted { body, _under_way: self }))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_one();
    }
}

/// A stream on which it is noted when something comes.
pub(crate) struct Heard<S> {
    pub(crate) stream: S,
    pub(crate) traffic: Traffic,
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.traffic.hear();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
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

    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(1);

    async fn is_idle(traffic: &Traffic, first: Duration, later: Duration) -> bool {
        let idle = traffic.idle(&SystemClock, first, later);
        tenure::clock::within(&SystemClock, Duration::from_millis(50), idle).await.is_ok()
    }

    #[tokio::test]
    async fn a_request_under_way_is_not_idle() {
        let traffic = Traffic::new(1);
        let under_way = traffic.begin(Version::HTTP_11);
        assert!(!is_idle(&traffic, LONG, SHORT).await);
        drop(under_way);
        traffic.idle(&SystemClock, LONG, SHORT).await;
    }

    #[tokio::test]
    async fn half_a_head_has_less_time_than_silence() {
        let traffic = Traffic::new(1);
        assert!(is_idle(&traffic, SHORT, LONG).await, "nothing came yet");
        drop(traffic.begin(Version::HTTP_11));
        assert!(!is_idle(&traffic, SHORT, LONG).await, "the next request may take its time");
        traffic.hear();
        assert!(is_idle(&traffic, SHORT, LONG).await, "but not once it has begun");
        drop(traffic.begin(Version::HTTP_2));
        traffic.hear();
        assert!(!is_idle(&traffic, SHORT, LONG).await, "a ping is no head");
    }
}

//! Work that is finished even when nobody waits for it any more.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Then<T> = Box<dyn FnOnce(T) + Send>;
type Plan<T> = Box<dyn FnOnce() -> Then<T> + Send>;

/// A future that moves to the runtime when it is dropped half-way, and is finished there.
///
/// A store operation that was sent cannot be unsent: whoever asked may go away, but someone must
/// see how it ended. Awaited to the end it costs no task.
pub(crate) struct Owned<T: Send + 'static> {
    work: Option<Work<T>>,
    plan: Option<Plan<T>>,
    runtime: Handle,
}

impl<T: Send + 'static> Owned<T> {
    pub(crate) fn new(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), plan: None, runtime: runtime.clone() }
    }

    /// `plan` is called when nobody waits any more, and says what to do with the outcome.
    pub(crate) fn if_abandoned<F: FnOnce(T) + Send + 'static>(
        mut self,
        plan: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        self.plan = Some(Box::new(|| Box::new(plan())));
        self
    }
}

impl<T: Send + 'static> Future for Owned<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = self.work.as_mut() else {
            return Poll::Pending;
        };
        let done = std::task::ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            let then = self.plan.take().map(|plan| plan());
            self.runtime.spawn(async move {
                let outcome = work.await;
                if let Some(then) = then {
                    then(outcome);
                }
            });
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("done", &self.work.is_none()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn dropped_work_is_finished_and_its_outcome_handed_on() {
        let (go, ready) = oneshot::channel::<u8>();
        let (tell, told) = oneshot::channel();
        let owned = Owned::new(&Handle::current(), ready)
            .if_abandoned(|| move |outcome| drop(tell.send(outcome)));
        drop(owned);
        go.send(7).unwrap();
        assert_eq!(told.await.unwrap(), Ok(7));
    }
}

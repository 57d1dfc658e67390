//! Running work under a lock: it ends before the lease can.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::error::{Chain, ErrorKind, Operation, Result};
use crate::locks::guard::Guard;
use crate::locks::keep::LostReason;
use crate::locks::request::LockRequest;
use crate::planted::Bug;

/// How work under a guard ended.
enum Ended<T> {
    Finished(T),
    Panicked(Box<dyn Any + Send>),
    Lost(LostReason),
}

/// Runs `work` while the guard holds, then gives the lock back.
pub(crate) async fn run_under<T>(guard: Guard, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
    let ended = {
        let lost = pin!(guard.lost());
        let work = pin!(work(&guard));
        WhileHeld { guard: &guard, lost, work }.await
    };
    match ended {
        Ended::Finished(_) if !guard.is_held() => Err(guard.lost_error(LostReason::Expired).await),
        Ended::Finished(value) => match guard.release().await {
            Ok(()) => Ok(value),
            Err(error) if error.kind() == ErrorKind::Lost => Err(error.during(Operation::Run)),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the lock was not given back cleanly");
                Ok(value)
            }
        },
        Ended::Panicked(panic) => {
            // The panic goes on; a release that fails now goes on in the background.
            let _ = guard.release().await;
            resume_unwind(panic)
        }
        Ended::Lost(reason) => Err(guard.lost_error(reason).await),
    }
}

/// Polls the work only while the guard holds: after a pause of the process not even once more.
struct WhileHeld<'a, W, L> {
    guard: &'a Guard,
    lost: Pin<&'a mut L>,
    work: Pin<&'a mut W>,
}

impl<T, W, L> Future for WhileHeld<'_, W, L>
where
    W: Future<Output = T>,
    L: Future<Output = LostReason>,
{
    type Output = Ended<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended<T>> {
        let unstopped = self.guard.is_planted(Bug::UnstoppedWork);
        if !unstopped && let Poll::Ready(reason) = self.lost.as_mut().poll(cx) {
            return Poll::Ready(Ended::Lost(reason));
        }
        // The keeper may not have run yet since the process went on: the clock decides.
        if !unstopped && !self.guard.is_held() {
            return Poll::Ready(Ended::Lost(self.guard.reason()));
        }
        match catch_unwind(AssertUnwindSafe(|| self.work.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ended::Finished(value)),
            Err(panic) => Poll::Ready(Ended::Panicked(panic)),
        }
    }
}

/// A function that runs under its lock every time it is called.
pub struct LockedFn<F> {
    request: LockRequest,
    function: F,
}

impl<F> LockedFn<F> {
    pub(crate) fn new(request: LockRequest, function: F) -> Self {
        Self { request, function }
    }

    /// Takes the lock, runs the function with `argument`, and gives the lock back: as
    /// [`LockRequest::run`].
    ///
    /// # Errors
    /// As [`LockRequest::run`].
    pub async fn call<A, T>(&self, argument: A) -> Result<T>
    where
        F: AsyncFn(&Guard, A) -> T,
    {
        self.request.run(async |guard| (self.function)(guard, argument).await).await
    }
}

impl<F> fmt::Debug for LockedFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedFn").field("request", &self.request).finish_non_exhaustive()
    }
}

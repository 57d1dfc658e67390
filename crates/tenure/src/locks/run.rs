//! Running work under a lock: it ends before the lease can.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_util::FutureExt;

use crate::error::{Chain, ErrorKind, Operation, Result};
use crate::locks::guard::Guard;
use crate::locks::keep::LostReason;
use crate::locks::request::LockRequest;
use crate::planted::Bug;

/// Runs `work` while the guard holds, then gives the lock back.
pub(crate) async fn run_under<T>(guard: Guard, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
    let ended = guard.while_held(AssertUnwindSafe(work(&guard)).catch_unwind()).await;
    match ended {
        Ok(Ok(_)) if !guard.is_held() => Err(guard.lost_error(LostReason::Expired).await),
        Ok(Ok(value)) => match guard.release().await {
            Ok(()) => Ok(value),
            Err(error) if error.kind() == ErrorKind::Lost => Err(error.during(Operation::Run)),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the lock was not given back cleanly");
                Ok(value)
            }
        },
        Ok(Err(panic)) => {
            // The panic goes on; a release that fails now goes on in the background.
            let _ = guard.release().await;
            resume_unwind(panic)
        }
        Err(reason) => Err(guard.lost_error(reason).await),
    }
}

/// Runs `work` while the guard holds.
pub(crate) async fn while_held<T>(
    guard: &Guard,
    work: impl Future<Output = T>,
) -> std::result::Result<T, LostReason> {
    WhileHeld { guard, lost: pin!(guard.lost()), work: pin!(work) }.await
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
    type Output = std::result::Result<T, LostReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let unstopped = self.guard.is_planted(Bug::UnstoppedWork);
        if !unstopped && let Poll::Ready(reason) = self.lost.as_mut().poll(cx) {
            return Poll::Ready(Err(reason));
        }
        // The keeper may not have run yet since the process went on: the clock decides.
        if !unstopped && !self.guard.is_held() {
            return Poll::Ready(Err(self.guard.reason()));
        }
        self.work.as_mut().poll(cx).map(Ok)
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

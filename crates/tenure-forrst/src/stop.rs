//! What ends a call before it is done: its deadline, or someone who cancels it.

use std::future::{Future, pending};
use std::sync::Arc;

use tenure::clock::{Clock, Moment};

use crate::extension::cancellation::Cancellable;
use crate::extension::deadline::Deadline;
use crate::fault::Fault;

/// The ends that a call may come to before it is done.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) deadline: Option<Deadline>,
    pub(crate) cancellable: Option<Cancellable>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Stop {
    /// Runs what the call is for, as [`or`](Self::or) does. Once that is done, it is too late to
    /// cancel the call, whatever else has to be done for it.
    pub(crate) async fn or_done<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Fault> {
        let done = self.or(work).await?;
        match &mut self.cancellable {
            Some(cancellable) => match cancellable.done() {
                true => Ok(done),
                false => Err(cancellable.fault()),
            },
            None => Ok(done),
        }
    }

    /// Runs `work`, or drops it where it stands when the call is stopped.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Fault> {
        let Self { deadline, cancellable, clock } = self;
        let ends = deadline.as_ref().map(|deadline| deadline.ends);
        let cancelled = async {
            match cancellable {
                Some(cancellable) => cancellable.cancelled().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancelled => {}
            () = reached(ends, &**clock) => {}
            done = work => return Ok(done),
        }
        Err(self.fault())
    }

    /// Why the call was stopped.
    fn fault(&self) -> Fault {
        let now = self.clock.now();
        match (&self.deadline, &self.cancellable) {
            (Some(deadline), _) if deadline.ends <= now => deadline.exceeded(now),
            (_, Some(cancellable)) => cancellable.fault(),
            // Nothing else stops a call.
            _ => Fault::internal(),
        }
    }
}

async fn reached(ends: Option<Moment>, clock: &dyn Clock) {
    match ends {
        Some(ends) => clock.sleep_until(ends).await,
        None => pending().await,
    }
}

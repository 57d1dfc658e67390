//! How the kernel schedules the writer thread.

use preempt_rt::sched::{Scheduler, SchedulerParams};

/// The calling thread, once woken, lets whoever woke it go on first, instead of interrupting it as
/// it would by default.
///
/// Whoever brings a job is about to bring more, and the more there are in a transaction, the less
/// each of them costs. An idle processor takes the thread at once all the same, and its share of
/// busy ones stays what it was.
pub(super) fn give_way() {
    let batch = Scheduler::SCHED_BATCH.with_params(SchedulerParams { priority: 0 });
    if let Err(error) = batch.set_current() {
        tracing::debug!(%error, "the writer thread is scheduled like any other");
    }
}

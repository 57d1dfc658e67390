//! Once in a period: a lease that lasts for the period says that it was begun, another how it
//! ended.
//!
//! Both end by the store's clock, so no two clocks have to agree. Whoever looks at them or writes
//! them holds the lock itself, so nobody else does at the same time. The outcome is a lease of its
//! own because a lease's label cannot be changed, and there must be no moment without the first.

use std::time::Duration;

use serde_json::json;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure::error::Chain;
use tenure::store::Timing;
use tenure::{Fence, Guard, Key, Locks, Status};

use super::held::Ended;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::spans::{ago, span};
use crate::status_line::StatusLine;
use crate::{cli, say};

/// What the outcome's label says between the holder and the code, and between that and the fence.
const EXIT: &str = " exit ";
const OF: &str = " of fence ";

/// The least of a period that is left to record an outcome for.
const REST_MIN: Duration = Duration::from_millis(100);

/// Whose turn it is.
#[derive(Debug)]
pub(super) enum Turn {
    /// There is none to keep if no period was asked for.
    Ours(Option<Period>),
    Over(Last),
}

/// A period that was begun here.
#[derive(Debug)]
pub(super) struct Period {
    locks: Locks,
    key: Key,
    fence: Fence,
    begun: Moment,
    length: Duration,
}

/// The last run of the period that is not over.
#[derive(Debug)]
pub(super) struct Last {
    begun: Status,
    /// `None`: it has not ended, or nobody could say how.
    exit: Option<u8>,
}

impl Period {
    /// Begins a period, if none is under way; with `retry_failed` also when the last run of this
    /// one did not succeed. The caller holds the lock.
    pub(super) async fn begin(
        locks: &Locks,
        key: &Key,
        length: Duration,
        retry_failed: bool,
    ) -> Result<Turn, Failure> {
        if locks.store().timing == Timing::Observer {
            let name = locks.store().name;
            let text = format!("--once-per needs a store that ends leases itself; {name} does not");
            return Err(Failure::new(Exit::Store, text).advise("use another store for this job"));
        }
        for name in [begun(key), ended(key)] {
            cli::key(&name).map_err(|error| Failure::of_error(&error))?;
        }
        if let Some(period) = Self::try_begin(locks, key, length).await? {
            return Ok(Turn::Ours(Some(period)));
        }
        let Some(last) = Last::look(locks, key).await? else {
            // It has ended since we asked.
            let begun = Self::try_begin(locks, key, length).await?;
            return begun.map(|period| Turn::Ours(Some(period))).ok_or_else(stirring);
        };
        if !retry_failed || last.exit == Some(0) {
            return Ok(Turn::Over(last));
        }
        for name in [begun(key), ended(key)] {
            let reason = "the last run of the period failed and is tried again";
            locks.force_release(&name, reason).await.map_err(|error| Failure::of_error(&error))?;
        }
        let begun = Self::try_begin(locks, key, length).await?;
        begun.map(|period| Turn::Ours(Some(period))).ok_or_else(stirring)
    }

    async fn try_begin(
        locks: &Locks,
        key: &Key,
        length: Duration,
    ) -> Result<Option<Self>, Failure> {
        let request = locks.lock(&begun(key)).ttl(length).keep_alive(false).holder("begun");
        let begun = SystemClock.now();
        let guard = request.try_acquire().await.map_err(|error| Failure::of_error(&error))?;
        Ok(guard.map(|guard| {
            let (locks, key) = (locks.clone(), key.clone());
            Self { locks, key, fence: guard.detach().fence, begun, length }
        }))
    }

    /// Records how it ended, while the lock is still held: whoever has it next must find that. If
    /// the lock is lost, another may write there, and how this run ended is not known. A store that
    /// fails now changes nothing about what the command did.
    pub(super) async fn end(self, ended: &Result<Ended, Failure>, guard: &Guard) {
        let code = match ended {
            Ok(Ended::Itself(exit)) if guard.is_held() => exit.code(),
            Err(failure) if guard.is_held() => failure.exit().code(),
            _ => return,
        };
        if let Err(error) = self.record(code).await {
            say::error(&format_args!(
                "warning: the outcome is not recorded, and counts as failed: {}",
                Chain(&error)
            ));
        }
    }

    async fn record(&self, code: u8) -> tenure::Result<()> {
        let rest = self.length.saturating_sub(SystemClock.now().since(self.begun));
        let label = format!("{}{code}{OF}{}", EXIT.trim_start(), self.fence);
        let name = ended(&self.key);
        let request = self.locks.lock(&name).holder(&label).keep_alive(false);
        let request = request.ttl(rest.max(REST_MIN));
        let guard = match request.try_acquire().await? {
            Some(guard) => guard,
            None => {
                self.locks.force_release(&name, "the outcome of an earlier period").await?;
                request.wait(REST_MIN).acquire().await?
            }
        };
        let _ = guard.detach();
        Ok(())
    }
}

impl Last {
    async fn look(locks: &Locks, key: &Key) -> Result<Option<Self>, Failure> {
        let status = async |name: String| {
            locks.status(&name).await.map_err(|error| Failure::of_error(&error))
        };
        let Some(begun) = status(begun(key)).await? else { return Ok(None) };
        let ended = status(ended(key)).await?;
        let exit = ended.and_then(|ended| exit_in(ended.holder.as_str(), begun.fence));
        Ok(Some(Self { begun, exit }))
    }

    /// Says why nothing is run. That the job is done is success; that it failed is not.
    pub(super) fn skip(&self, key: &Key, quiet: bool) -> Result<Exit, Failure> {
        let Status { granted_at, remaining, holder, .. } = &self.begun;
        let outcome = match self.exit {
            Some(code) => format!("it ended with {code}"),
            None => "how it ended is not known".into(),
        };
        let text = format!(
            "{key:?} was run {} by {holder}: {outcome}; the next run can be in {}",
            ago(*granted_at, SystemClock.wall()),
            span(*remaining)
        );
        if self.exit != Some(0) {
            return Err(
                Failure::new(Exit::NotAcquired, text).advise("--retry-failed would run it again")
            );
        }
        if !quiet {
            let begun = StatusLine::from(&self.begun);
            let details = json!({ "key": key.as_str(), "exit": self.exit, "begun": begun });
            say::told("skipped", &details, || text);
        }
        Ok(Exit::SUCCESS)
    }
}

fn begun(key: &Key) -> String {
    format!("{key}#period")
}

fn ended(key: &Key) -> String {
    format!("{key}#outcome")
}

/// The code in an outcome's label, if it is that of this grant.
fn exit_in(label: &str, fence: Fence) -> Option<u8> {
    let (rest, of) = label.rsplit_once(OF)?;
    let (_, code) = rest.rsplit_once(EXIT)?;
    (of == fence.to_string()).then_some(code.parse().ok()?)
}

fn stirring() -> Failure {
    Failure::new(Exit::NotAcquired, "another process begins a period without holding the lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_belongs_to_one_run() {
        let fence = Fence::new(17);
        assert_eq!(exit_in("host/1 exit 3 of fence 17", fence), Some(3));
        assert_eq!(exit_in("host/1 exit 3 of fence 16", fence), None);
        assert_eq!(exit_in("exit 9 of fence 17/1 exit 0 of fence 17", fence), Some(0));
        assert_eq!(exit_in("host/1", fence), None);
    }
}

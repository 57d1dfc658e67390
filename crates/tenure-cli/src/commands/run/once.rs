//! Once in a period: a lease that lasts for the period says that it was begun, another how it
//! ended.
//!
//! Both end by the store's clock, so no two clocks have to agree. Whoever looks at them or writes
//! them holds the lock itself, or did a moment ago: so nothing is taken away but what was seen.
//! That is why their owners are no secrets: each can be told from the label of its lease, and a
//! release with it is for that lease alone. The outcome is a lease of its own because a lease's
//! label cannot be changed, and there must be no moment without the first.

use std::str::FromStr;
use std::time::Duration;

use serde_json::json;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure::error::Chain;
use tenure::store::Timing;
use tenure::{ErrorKind, Fence, Guard, Key, Locks, Owner, Status};

use super::held::Ended;
use super::settle::ttl_min;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::spans::{ago, span};
use crate::status_line::StatusLine;
use crate::{cli, say};

/// What the label of a period says before the fence of the lock that it was begun under.
const BEGUN: &str = "begun under fence ";

/// What the outcome's label says before the code, and between that and the fence of its period.
const EXIT: &str = "exit ";
const OF: &str = " of fence ";

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
    owner: Owner,
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
    /// Whether periods of this key can be kept there.
    pub(super) fn check(locks: &Locks, key: &Key) -> Result<(), Failure> {
        if locks.store().timing == Timing::Observer {
            let name = locks.store().name;
            let text = format!("--once-per needs a store that ends leases itself; {name} does not");
            return Err(Failure::new(Exit::Store, text).advise("use another store for this job"));
        }
        for name in [begun(key), ended(key)] {
            cli::key(&name).map_err(|error| Failure::of_error(&error))?;
        }
        Ok(())
    }

    /// Begins a period, if none is under way; with `retry_failed` also when the last run of this
    /// one did not succeed. The caller holds the lock.
    pub(super) async fn begin(
        locks: &Locks,
        lock: &Guard,
        length: Duration,
        retry_failed: bool,
    ) -> Result<Turn, Failure> {
        if let Some(period) = Self::try_begin(locks, lock, length).await? {
            return Ok(Turn::Ours(Some(period)));
        }
        if let Some(last) = Last::look(locks, lock.key()).await? {
            if !retry_failed || last.exit == Some(0) {
                return Ok(Turn::Over(last));
            }
            last.take_back(locks, lock.key()).await?;
        }
        // It has ended since we asked, or was taken back.
        let begun = Self::try_begin(locks, lock, length).await?;
        begun.map(|period| Turn::Ours(Some(period))).ok_or_else(stirring)
    }

    async fn try_begin(
        locks: &Locks,
        lock: &Guard,
        length: Duration,
    ) -> Result<Option<Self>, Failure> {
        let key = lock.key().clone();
        let label = format!("{BEGUN}{}", lock.fence());
        let owner = owner(&label)?;
        let request = locks.lock(&begun(&key)).ttl(length).keep_alive(false);
        let request = request.holder(&label).owner(owner.clone());
        let begun = SystemClock.now();
        let guard = request.try_acquire().await.map_err(|error| Failure::advised(&error))?;
        Ok(guard.map(|guard| {
            let fence = guard.detach().fence;
            Self { locks: locks.clone(), key, owner, fence, begun, length }
        }))
    }

    /// Records how it ended, while the lock is still held: whoever has it next must find that. If
    /// the lock is lost, another may write there, and how this run ended is not known. A store that
    /// fails now changes nothing about what the command did.
    pub(super) async fn end(self, ended: &Result<Ended, Failure>, lock: &Guard) {
        let code = match ended {
            Ok(Ended::Itself(exit)) if lock.is_held() => exit.code(),
            Err(failure) if lock.is_held() => failure.exit().code(),
            // There was no run, and so there may be one.
            Ok(Ended::NotBegun(_)) => {
                let _ = self.locks.release(&begun(&self.key), &self.owner).await;
                return;
            }
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
        let label = format!("{EXIT}{code}{OF}{}", self.fence);
        let name = ended(&self.key);
        let request = self.locks.lock(&name).holder(&label).keep_alive(false);
        let owner = Owner::parse(&format!("outcome{OF}{}", self.fence))?;
        let request = request.ttl(rest.max(ttl_min(&self.locks))).owner(owner);
        if let Some(guard) = request.try_acquire().await? {
            let _ = guard.detach();
            return Ok(());
        }
        // The outcome of an earlier period, which ends a moment after that; a later one stays.
        if let Some(status) = self.locks.status(&name).await?
            && let Some(of) = fence_behind(status.holder.as_str(), OF)
            && of < self.fence
        {
            let owner = Owner::parse(&format!("outcome{OF}{of}"))?;
            release_seen(&self.locks, &name, &owner).await?;
        }
        let guard = request.wait(ttl_min(&self.locks)).acquire().await?;
        let _ = guard.detach();
        Ok(())
    }
}

impl Last {
    async fn look(locks: &Locks, key: &Key) -> Result<Option<Self>, Failure> {
        let status = async |name: String| {
            locks.status(&name).await.map_err(|error| Failure::advised(&error))
        };
        let Some(begun) = status(begun(key)).await? else { return Ok(None) };
        let ended = status(ended(key)).await?;
        let exit = ended.and_then(|ended| exit_in(ended.holder.as_str(), begun.fence));
        Ok(Some(Self { begun, exit }))
    }

    /// Takes the period back that was seen, and no other.
    async fn take_back(&self, locks: &Locks, key: &Key) -> Result<(), Failure> {
        let Some(fence) = fence_behind(self.begun.holder.as_str(), BEGUN) else {
            let text = format!("{:?} was not taken by --once-per", begun(key));
            let advice = "give it back with 'tenure release', or by force";
            return Err(Failure::new(Exit::NotAcquired, text).advise(advice));
        };
        let owner = owner(&format!("{BEGUN}{fence}"))?;
        let taken = release_seen(locks, &begun(key), &owner).await;
        taken.map_err(|error| Failure::advised(&error))
    }

    /// Says why nothing is run. That the job is done is success; that it failed is not.
    pub(super) fn skip(&self, key: &Key, quiet: bool) -> Result<Exit, Failure> {
        let Status { granted_at, remaining, holder, .. } = &self.begun;
        let holder = holder.as_str().rsplit_once(BEGUN).map_or(holder.as_str(), |(who, _)| who);
        let outcome = match self.exit {
            Some(code) => format!("it ended with {code}"),
            None => "how it ended is not known".into(),
        };
        let text = format!(
            "{key:?} was run {} by {}: {outcome}; the next run can be in {}",
            ago(*granted_at, SystemClock.wall()),
            holder.trim_end(),
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

/// Who may take back what has this label.
fn owner(label: &str) -> Result<Owner, Failure> {
    Owner::parse(label).map_err(|error| Failure::of_error(&error))
}

/// Releases the lease of that owner. That it is gone, or another stands there, is found by whoever
/// asks for the key next.
async fn release_seen(locks: &Locks, name: &str, owner: &Owner) -> tenure::Result<()> {
    match locks.release(name, owner).await {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongOwner) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// The fence at the end of a label. What stands before is of the holder, and may be anything.
fn fence_behind(label: &str, mark: &str) -> Option<Fence> {
    number(label.rsplit_once(mark)?.1).map(Fence::new)
}

/// The code in an outcome's label, if it is that of this grant.
fn exit_in(label: &str, fence: Fence) -> Option<u8> {
    let (rest, of) = label.rsplit_once(OF)?;
    let (_, code) = rest.rsplit_once(EXIT)?;
    number(code).filter(|_| of == fence.to_string())
}

/// A number as it is written here: with no sign, and with no zeros before it.
fn number<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}

fn stirring() -> Failure {
    Failure::new(Exit::NotAcquired, "another process begins a period without holding the lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn an_outcome_belongs_to_one_run() {
        let fence = Fence::new(17);
        assert_eq!(exit_in("host/1 exit 3 of fence 17", fence), Some(3));
        assert_eq!(exit_in("host/1 exit 3 of fence 16", fence), None);
        assert_eq!(exit_in("exit 9 of fence 17/1 exit 0 of fence 17", fence), Some(0));
        assert_eq!(exit_in("host/1", fence), None);
        assert_eq!(fence_behind("begun under fence 3/1 begun under fence 17", BEGUN), Some(fence));
    }

    /// Numbers by chance, and the same ones in every run.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % end
        }
    }

    /// What labels are made of, and what looks like it.
    const PARTS: [&str; 16] = [
        BEGUN, EXIT, OF, "exit", "of", " ", "\u{a0}", "+", "-", "0", "00", "7", "17", "256",
        "\u{661}", "host/1",
    ];

    /// A label with up to three of its parts put in, left out or changed.
    fn changed(label: &[&str], chance: &mut Chance) -> String {
        let mut parts = label.to_vec();
        for _ in 0..chance.below(4) {
            let from = chance.below(parts.len() + 1);
            let to = parts.len().min(from + chance.below(2));
            let part = PARTS.get(chance.below(PARTS.len() + 4)).copied();
            drop(parts.splice(from..to, part));
        }
        parts.concat()
    }

    /// Whoever may write into the store can write any label there.
    #[test]
    fn nothing_is_read_from_a_label_but_what_is_written_here() {
        let mut chance = Chance(7);
        let mut passed_over = 0;
        for _ in 0..50_000 {
            let exit = u8::try_from(chance.below(256)).unwrap();
            let number = Fence::new(u64::try_from(chance.below(20)).unwrap());
            let (code, fence) = (exit.to_string(), number.to_string());
            let outcome = ["host/1 ", EXIT, &code, OF, &fence];
            assert_eq!(exit_in(&outcome.concat(), number), Some(exit));
            assert_eq!(fence_behind(&outcome.concat(), OF), Some(number));
            let begun = ["host/1 ", BEGUN, &fence];
            assert_eq!(fence_behind(&begun.concat(), BEGUN), Some(number));
            for (label, mark) in [(&outcome[..], OF), (&begun[..], BEGUN)] {
                let label = changed(label, &mut chance);
                if let Some(exit) = exit_in(&label, number) {
                    assert!(label.ends_with(&format!("{EXIT}{exit}{OF}{fence}")), "{label:?}");
                }
                match fence_behind(&label, mark) {
                    Some(of) => assert!(label.ends_with(&format!("{mark}{of}")), "{label:?}"),
                    None => passed_over += 1,
                }
            }
        }
        assert!((10_000..90_000).contains(&passed_over), "{passed_over}");
    }

    async fn begin(locks: &Locks, lock: &Guard) -> Turn {
        Period::begin(locks, lock, HOUR, true).await.unwrap()
    }

    /// One is stopped after it has looked, and for so long that another has its lock and its turn.
    #[tokio::test]
    async fn a_period_that_another_has_begun_is_not_taken_back() {
        let locks = Locks::open("memory:").await.unwrap();
        let first = locks.lock("job").acquire().await.unwrap();
        let Turn::Ours(Some(period)) = begin(&locks, &first).await else { panic!("it is free") };
        period.record(3).await.unwrap();
        let seen = Last::look(&locks, first.key()).await.unwrap().unwrap();
        assert_eq!(seen.exit, Some(3));
        first.release().await.unwrap();

        let second = locks.lock("job").acquire().await.unwrap();
        let Turn::Ours(Some(period)) = begin(&locks, &second).await else { panic!("it failed") };
        seen.take_back(&locks, second.key()).await.unwrap();
        let now = Last::look(&locks, second.key()).await.unwrap().unwrap();
        assert_eq!(now.begun.fence, period.fence);
        assert_eq!(now.exit, None, "the outcome is that of another run");
    }

    #[tokio::test]
    async fn the_outcome_of_a_later_period_stays() {
        let locks = Locks::open("memory:").await.unwrap();
        let lock = locks.lock("job").acquire().await.unwrap();
        let Turn::Ours(Some(early)) = begin(&locks, &lock).await else { panic!("it is free") };
        lock.release().await.unwrap();
        let lock = locks.lock("job").acquire().await.unwrap();
        let Turn::Ours(Some(late)) = begin(&locks, &lock).await else { panic!("unknown") };
        early.record(1).await.unwrap();
        late.record(0).await.unwrap();
        assert!(early.record(1).await.is_err());
        let last = Last::look(&locks, lock.key()).await.unwrap().unwrap();
        assert_eq!((last.begun.fence, last.exit), (late.fence, Some(0)));
    }

    #[tokio::test]
    async fn a_run_that_has_not_begun_leaves_no_period() {
        let locks = Locks::open("memory:").await.unwrap();
        let lock = locks.lock("job").acquire().await.unwrap();
        let Turn::Ours(Some(period)) = begin(&locks, &lock).await else { panic!("it is free") };
        let ended = Ok(Ended::NotBegun(Failure::new(Exit::Lost, "lost")));
        period.end(&ended, &lock).await;
        assert!(Last::look(&locks, lock.key()).await.unwrap().is_none());
    }
}

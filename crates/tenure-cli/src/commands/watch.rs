//! `tenure watch`: what happens to some locks, one line per change.

use std::convert::Infallible;
use std::time::Duration;

use clap::Args;
use futures_util::future::try_join_all;
use serde::Serialize;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure::watch::Watch;
use tenure::{Key, Locks, Retry, Status};
use tenure_api::rfc3339;

use crate::cli::{OutputArgs, StoreArgs, key};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::signals::Signals;
use crate::spans::span;
use crate::status_line::StatusLine;
use crate::trouble::Trouble;
use crate::{answer, open};

const EXAMPLES: &str = "\
Examples:
  What becomes of two locks, until Ctrl-C.
    tenure watch deploy import

  Do something when a lock is free.
    tenure watch deploy --json | jq --unbuffered -r 'select(.event == \"free\") | .at'

Lines:
  The first line of each key says how things stand: held or free. Then, for each change:
  granted  to another holder, with its fence
  renewed  only with --verbose, and only as often as the lease is looked at
  free     released, by its owner or by force, or expired: its ttl was over
  In JSON these are in 'event', with the time in 'at', and for free in 'how'. A grant that comes and
  goes between two looks may be missed: the next fence tells. A store that fails is said on stderr
  and asked again, unless it will go on to fail.";

const CODES: [(Exit, &str); 2] = [
    (Exit::SUCCESS, "it was ended by Ctrl-C (SIGINT)"),
    (Exit::Signal(0), "and above: 128 + n, when another signal n ended it"),
];

/// How often to look without being called.
const POLL: Duration = Duration::from_secs(5);

/// The same where the store calls nobody: or for nothing but a release, and it is a grant or a
/// renewal that is to be seen.
const POLL_OFTEN: Duration = Duration::from_secs(1);

/// How soon to look again when the store was called upon and failed.
const RETRY: Duration = Duration::from_secs(1);

/// A hint may come for nothing, and the next one at once.
const LULL: Duration = Duration::from_millis(10);

/// By how much a lease must have more left than was to be expected to have been renewed.
const RENEWED_BY: Duration = Duration::from_millis(50);

/// Say what happens to locks
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct WatchArgs {
    /// The names of the locks
    #[arg(value_parser = key, required = true, value_name = "KEY")]
    keys: Vec<Key>,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Says what happens to the locks, until a signal ends it.
pub(crate) async fn watch(args: &WatchArgs) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let watching = async {
        let locks = open::locks(&args.store, args.output.verbose, open::USUAL_TTL).await?;
        let lookouts = args.keys.iter().map(|key| Lookout::new(&locks, key, &args.output).run());
        try_join_all(lookouts).await.map(|_| Exit::SUCCESS)
    };
    tokio::select! {
        biased;
        signal = signals.end() => Ok(Exit::of_ended_by(signal)),
        outcome = watching => outcome,
    }
}

/// What was seen of a key, and when.
#[derive(Debug)]
struct Seen {
    at: Moment,
    status: Option<Status>,
}

impl Seen {
    /// How much of the lease is left at `now`; `None` when there is none.
    fn left(&self, now: Moment) -> Option<Duration> {
        let status = self.status.as_ref()?;
        Some(status.remaining.saturating_sub(now.since(self.at)))
    }
}

/// One change of a key.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Held,
    Granted,
    Renewed,
    Free(Option<&'static str>),
}

impl Change {
    /// What has changed between two looks; the first has nothing before it.
    fn between(before: Option<&Seen>, now: &Seen) -> Option<Self> {
        let old = before.map(|seen| seen.status.as_ref());
        match (old, &now.status) {
            (None, Some(_)) => Some(Self::Held),
            (None, None) => Some(Self::Free(None)),
            (Some(None), None) => None,
            (Some(None), Some(_)) => Some(Self::Granted),
            (Some(Some(old)), Some(new)) if old.fence != new.fence => Some(Self::Granted),
            (Some(Some(_)), Some(new)) => {
                let left = before.and_then(|seen| seen.left(now.at)).unwrap_or_default();
                (new.remaining > left + RENEWED_BY).then_some(Self::Renewed)
            }
            (Some(Some(_)), None) => {
                let left = before.and_then(|seen| seen.left(now.at)).unwrap_or_default();
                Some(Self::Free(Some(if left.is_zero() { "expired" } else { "released" })))
            }
        }
    }
}

/// A change in JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    at: String,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<StatusLine>,
}

/// Who looks at one key.
struct Lookout<'a> {
    locks: &'a Locks,
    key: &'a Key,
    output: &'a OutputArgs,
    last: Option<Seen>,
    trouble: Trouble,
}

impl<'a> Lookout<'a> {
    fn new(locks: &'a Locks, key: &'a Key, output: &'a OutputArgs) -> Self {
        Self { locks, key, output, last: None, trouble: Trouble::default() }
    }

    /// Looks, and looks again when the key may have changed. Ends when nobody reads any more, or
    /// the store fails for good.
    async fn run(mut self) -> Result<Infallible, Failure> {
        let mut watch = None;
        loop {
            match self.look(&mut watch).await {
                Ok(seen) => {
                    self.trouble.is_over();
                    self.tell(&seen)?;
                    self.last = Some(seen);
                    self.pause(watch.as_mut()).await;
                }
                Err(error) if error.retry() == Retry::Never => {
                    return Err(Failure::advised(&error));
                }
                Err(error) => {
                    self.trouble.tell(&error);
                    watch = None;
                    SystemClock.sleep_until(SystemClock.now() + RETRY).await;
                }
            }
        }
    }

    /// Subscribes first, so that what changes after the look is not missed.
    async fn look(&self, watch: &mut Option<Watch>) -> tenure::Result<Seen> {
        if watch.is_none() {
            *watch = Some(self.locks.watch(self.key.as_str()).await?);
        }
        // What is left of the lease is counted from here, and so never ends too late.
        let at = SystemClock.now();
        let status = self.locks.status(self.key.as_str()).await?;
        Ok(Seen { at, status })
    }

    /// Returns when the key may have changed, its lease must have ended, or it is time.
    async fn pause(&self, watch: Option<&mut Watch>) {
        let now = SystemClock.now();
        let is_held = self.last.as_ref().is_some_and(|seen| seen.status.is_some());
        let is_called = self.locks.store().capabilities.wakes && is_held && !self.output.verbose;
        let poll = if is_called { POLL } else { POLL_OFTEN };
        // A store may show for a while what nobody can renew any more.
        let last = self.last.as_ref().filter(|seen| seen.left(seen.at) > Some(Duration::ZERO));
        let left = last.and_then(|seen| seen.left(now)).unwrap_or(POLL_OFTEN);
        let until = now + poll.min(left.max(LULL));
        let changed = async {
            match watch {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => SystemClock.sleep_until(now + LULL).await,
            () = SystemClock.sleep_until(until) => {}
        }
    }

    fn tell(&self, seen: &Seen) -> Result<(), Failure> {
        match Change::between(self.last.as_ref(), seen) {
            None => Ok(()),
            Some(Change::Renewed) if !self.output.verbose => Ok(()),
            Some(change) if self.output.json => answer::json(&self.line(&change, seen)),
            Some(change) => answer::line(&self.text(&change, seen)),
        }
    }

    fn line(&self, change: &Change, seen: &Seen) -> Line<'a> {
        let (event, how) = match change {
            Change::Held => ("held", None),
            Change::Granted => ("granted", None),
            Change::Renewed => ("renewed", None),
            Change::Free(how) => ("free", *how),
        };
        let at = rfc3339::milliseconds(SystemClock.wall());
        Line { event, at, key: self.key.as_str(), how, lease: seen.status.as_ref().map(Into::into) }
    }

    fn text(&self, change: &Change, seen: &Seen) -> String {
        let what = match change {
            Change::Held => "held by",
            Change::Granted => "granted to",
            Change::Renewed => "renewed by",
            Change::Free(_) => "free",
        };
        let more = match (change, &seen.status) {
            (Change::Free(Some(how)), _) => format!(" ({how})"),
            (_, Some(status)) => {
                let Status { holder, fence, remaining, .. } = status;
                format!(" {holder} (fence {fence}, ttl left {})", span(*remaining))
            }
            _ => String::new(),
        };
        format!("{}  {}  {what}{more}", clock_time(), self.key)
    }
}

/// The time of day, in UTC.
fn clock_time() -> String {
    let stamp = rfc3339::seconds(SystemClock.wall());
    stamp.get(11..19).unwrap_or(&stamp).to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tenure::{Fence, Holder};

    use super::*;

    fn seen(at_s: u64, lease: Option<(u64, u64)>) -> Seen {
        let status = lease.map(|(fence, left_s)| Status {
            key: Key::new("k").unwrap(),
            fence: Fence::new(fence),
            ttl: Duration::from_secs(30),
            holder: Holder::new("h").unwrap(),
            granted_at: SystemTime::UNIX_EPOCH,
            remaining: Duration::from_secs(left_s),
        });
        Seen { at: Moment::from_nanos(at_s * 1_000_000_000), status }
    }

    #[test]
    fn two_looks_make_a_change() {
        let held = seen(100, Some((7, 30)));
        let free = seen(100, None);
        for (before, now, change) in [
            (None, seen(1, None), Some(Change::Free(None))),
            (None, seen(1, Some((7, 30))), Some(Change::Held)),
            (Some(&free), seen(105, None), None),
            (Some(&free), seen(105, Some((7, 30))), Some(Change::Granted)),
            (Some(&held), seen(110, Some((7, 20))), None),
            (Some(&held), seen(110, Some((7, 30))), Some(Change::Renewed)),
            (Some(&held), seen(110, Some((8, 30))), Some(Change::Granted)),
            (Some(&held), seen(110, None), Some(Change::Free(Some("released")))),
            (Some(&held), seen(130, None), Some(Change::Free(Some("expired")))),
        ] {
            assert_eq!(Change::between(before, &now), change, "{before:?} {now:?}");
        }
    }
}

//! A command while its lock is held: from its start to its end, or to the loss of the lock.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::Signal;
use serde_json::json;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure::{Guard, LostReason};

use super::child::{Child, News, Stopped};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::say;
use crate::signals::{Signals, suspend};

/// How long before the end of belief a command that does not stop is killed, at the most.
const KILL_AHEAD_MAX: Duration = Duration::from_secs(1);

/// What becomes of a command whose lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM at three quarters of the ttl, SIGKILL before the lease can end
    Term,
    /// SIGKILL before the lease can end, and nothing before
    Kill,
    /// It goes on without the lock, and this is said
    Warn,
}

/// A command to run while a lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) command: &'a [OsString],
    /// The ttl, or the longest hold if that is shorter: what the times to stop are parts of.
    pub(crate) term: Duration,
    pub(crate) on_lost: OnLost,
}

/// How a job ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself; this is how.
    Itself(Exit),
    /// Because the lock was lost; what to say of it.
    Lost(Failure),
    /// As [`Lost`](Self::Lost), before anything of the command had begun.
    NotBegun(Failure),
    /// As [`Lost`](Self::Lost), but something of the command may go on: whoever is next should
    /// wait for the ttl.
    Remains(Failure),
}

impl Job<'_> {
    /// Runs the command while the guard holds. When this returns nothing of it runs any more,
    /// unless it has ended by itself and left something behind, or cannot be killed from here.
    pub(crate) async fn run(&self, guard: &Guard, signals: &mut Signals) -> Result<Ended, Failure> {
        let mut child = Child::start(self.command, guard, self.until(guard))?;
        // Only now: if this process is stopped from here on, there is someone to be killed, and
        // someone to do it.
        let begun = guard.is_held().then(|| child.begin(guard));
        let ended = match begun {
            Some(Ok(())) => Ok(self.attend(&mut child, guard, signals).await),
            Some(Err(failure)) => {
                child.kill().await;
                Err(failure)
            }
            None => {
                child.kill().await;
                Ok(Ended::NotBegun(failure(guard, reason(guard).await, NOT_BEGUN)))
            }
        };
        child.leave();
        ended
    }

    async fn attend(&self, child: &mut Child, guard: &Guard, signals: &mut Signals) -> Ended {
        let mut lost = None;
        loop {
            child.trust(self.until(guard));
            tokio::select! {
                biased;
                news = child.news() => match news {
                    News::Ended(status) => return ended(child, guard, status, lost).await,
                    News::Unwatched => {}
                },
                reason = guard.ending(self.ahead()), if lost.is_none() => match self.on_lost {
                    OnLost::Warn => {
                        warn(guard, reason);
                        lost = Some(reason);
                    }
                    OnLost::Term => {
                        let too_late = too_late(guard, self.term, reason, signals);
                        return stopped(guard, reason, child.stop(too_late).await);
                    }
                    OnLost::Kill => return stopped(guard, reason, child.kill().await),
                },
                signal = signals.next() => self.pass_on(child, guard, signal),
                () = SystemClock.sleep_until(SystemClock.now() + self.term / 8) => {}
            }
        }
    }

    /// When to have the command killed if nobody comes to say otherwise: a process that is stopped,
    /// or waits for whoever reads its output, cannot do it when the lease runs out.
    fn until(&self, guard: &Guard) -> Option<Moment> {
        // Read before what is left is, so that it is never too late.
        let now = SystemClock.now();
        let left = guard.remaining();
        let is_wanted = self.on_lost != OnLost::Warn && !left.is_zero();
        is_wanted.then(|| now + left.saturating_sub(kill_ahead(self.term) * 3 / 4))
    }

    /// How long before the end of belief to act.
    fn ahead(&self) -> Duration {
        match self.on_lost {
            OnLost::Term => self.term / 4,
            OnLost::Kill => kill_ahead(self.term),
            OnLost::Warn => Duration::ZERO,
        }
    }

    /// A command that is suspended is suspended with us, and nobody renews: when it is to go on,
    /// the lock may be gone, and then it must not.
    fn pass_on(&self, child: &Child, guard: &Guard, signal: Signal) {
        child.pass_on(signal);
        if signal == Signal::TSTP {
            suspend();
            if guard.is_held() || self.on_lost == OnLost::Warn {
                child.pass_on(Signal::CONT);
            }
        }
    }
}

/// The command has ended: by itself, or from beside, while this process was held up.
async fn ended(
    child: &mut Child,
    guard: &Guard,
    status: ExitStatus,
    lost: Option<LostReason>,
) -> Ended {
    if let Some(reason) = lost {
        return Ended::Lost(failure(guard, reason, WENT_ON));
    }
    let is_killed = status.signal() == Some(Signal::KILL.as_raw());
    if is_killed && (child.is_struck() || !guard.is_held()) {
        return stopped(guard, reason(guard).await, child.kill().await);
    }
    Ended::Itself(Exit::of_command(status))
}

fn stopped(guard: &Guard, reason: LostReason, stopped: Stopped) -> Ended {
    match stopped {
        Stopped::Terminated => Ended::Lost(failure(guard, reason, TERMINATED)),
        Stopped::Killed => Ended::Lost(failure(guard, reason, KILLED)),
        Stopped::Remains => Ended::Remains(failure(guard, reason, REMAINS)),
    }
}

/// Why the lock is lost, or would be.
async fn reason(guard: &Guard) -> LostReason {
    guard.ending(Duration::MAX).await
}

const TERMINATED: &str = "the command was stopped with SIGTERM";
const KILLED: &str = "the command was killed with SIGKILL";
const REMAINS: &str = "something that it started cannot be seen or killed from here and may go on, \
                       so the lock is left to end with its ttl";
const NOT_BEGUN: &str = "the command was not run";
const WENT_ON: &str = "the command went on without it to its end";

fn kill_ahead(term: Duration) -> Duration {
    (term / 10).min(KILL_AHEAD_MAX)
}

/// Returns when a command that was told to stop must be killed: a little before belief ends, so
/// that it is gone by then, or when somebody is in a hurry.
///
/// A lock that was taken away leaves no such time. The command still gets that little, to put
/// things in order: the loss was found only with a renewal, so it is small beside what has passed.
async fn too_late(guard: &Guard, term: Duration, reason: LostReason, signals: &mut Signals) {
    let ahead = kill_ahead(term);
    let time_is_over = async {
        if reason == LostReason::Refused {
            SystemClock.sleep_until(SystemClock.now() + ahead).await;
        } else {
            guard.ending(ahead).await;
        }
    };
    tokio::select! {
        () = time_is_over => {}
        () = hurried(signals) => {}
    }
}

/// Returns with the second signal to end: one alone says no more than the command was told already.
async fn hurried(signals: &mut Signals) {
    let mut count = 0;
    while count < 2 {
        count += u32::from(matches!(signals.next().await, Signal::TERM | Signal::INT));
    }
}

fn why(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Refused => "it was released by force, or ended and went to another",
        LostReason::MaxHold => "it was held for as long as --max-hold allows",
        _ => "it could not be renewed in time",
    }
}

fn warn(guard: &Guard, reason: LostReason) {
    let (key, fence) = (guard.key(), guard.fence());
    let details = json!({ "key": key.as_str(), "fence": fence.get(), "reason": why(reason) });
    say::told("lost", &details, || {
        let why = why(reason);
        format!("tenure: the lock {key:?} (fence {fence}) is lost: {why}; the command goes on")
    });
}

fn failure(guard: &Guard, reason: LostReason, how: &str) -> Failure {
    let (key, fence, why) = (guard.key(), guard.fence(), why(reason));
    Failure::new(Exit::Lost, format!("the lock {key:?} (fence {fence}) was lost: {why}; {how}"))
}

//! A command while its lock is held: from its start to its end, or to the loss of the lock.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::Signal;
use serde_json::json;
use tenure::clock::{Clock, SystemClock, within};
use tenure::error::Chain;
use tenure::{ErrorKind, Guard, LostReason};

use super::child::{Child, Stopped};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::{Signals, suspend};
use crate::{open, say};

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
    /// As [`Lost`](Self::Lost), but something of the command may go on: whoever is next should
    /// wait for the ttl.
    Remains(Failure),
}

impl Job<'_> {
    /// Runs the command while the guard holds. When this returns nothing of it runs any more,
    /// unless it has ended by itself and left something behind, or cannot be killed from here.
    pub(crate) async fn run(&self, guard: &Guard, signals: &mut Signals) -> Result<Ended, Failure> {
        let mut child = Child::start(self.command, guard)?;
        let ended = self.attend(&mut child, guard, signals).await;
        child.leave();
        Ok(ended)
    }

    async fn attend(&self, child: &mut Child, guard: &Guard, signals: &mut Signals) -> Ended {
        let mut lost = None;
        loop {
            self.trust(child, guard);
            tokio::select! {
                biased;
                status = child.ended() => return self.ended(guard, status, lost).await,
                reason = guard.ending(self.ahead()), if lost.is_none() => match self.on_lost {
                    OnLost::Warn => {
                        warn(guard, reason);
                        lost = Some(reason);
                    }
                    OnLost::Kill | OnLost::Term => return self.stop(child, guard, reason).await,
                },
                signal = signals.next() => self.pass_on(child, guard, signal),
                () = SystemClock.sleep_until(SystemClock.now() + self.term / 8) => {}
            }
        }
    }

    /// Has the command killed when the lease runs out and nobody comes to say otherwise: a process
    /// that is stopped, or waits for whoever reads its output, cannot do it.
    fn trust(&self, child: &mut Child, guard: &Guard) {
        if self.on_lost != OnLost::Warn && guard.is_held() {
            let left = guard.remaining().saturating_sub(kill_ahead(self.term) / 2);
            child.trust(SystemClock.now() + left);
        }
    }

    async fn ended(&self, guard: &Guard, status: ExitStatus, lost: Option<LostReason>) -> Ended {
        if let Some(reason) = lost {
            return Ended::Lost(failure(guard, reason, WENT_ON));
        }
        // Killed from beside, while this process was held up.
        if !guard.is_held() && status.signal() == Some(Signal::KILL.as_raw()) {
            return Ended::Lost(failure(guard, guard.lost().await, KILLED));
        }
        Ended::Itself(Exit::of_command(status))
    }

    /// How long before the end of belief to act.
    fn ahead(&self) -> Duration {
        match self.on_lost {
            OnLost::Term => self.term / 4,
            OnLost::Kill => kill_ahead(self.term),
            OnLost::Warn => Duration::ZERO,
        }
    }

    async fn stop(&self, child: &mut Child, guard: &Guard, reason: LostReason) -> Ended {
        let stopped = match self.on_lost {
            OnLost::Term => child.stop(too_late(guard, self.term, reason)).await,
            OnLost::Kill | OnLost::Warn => child.kill().await,
        };
        match stopped {
            Stopped::Terminated => Ended::Lost(failure(guard, reason, TERMINATED)),
            Stopped::Killed => Ended::Lost(failure(guard, reason, KILLED)),
            Stopped::Remains => Ended::Remains(failure(guard, reason, REMAINS)),
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

const TERMINATED: &str = "the command was stopped with SIGTERM";
const KILLED: &str = "the command was killed with SIGKILL";
const REMAINS: &str = "something that it started cannot be killed from here and may go on, so the \
                       lock is left to end with its ttl";
const WENT_ON: &str = "the command went on without it to its end";

fn kill_ahead(term: Duration) -> Duration {
    (term / 10).min(KILL_AHEAD_MAX)
}

/// Returns when a command that was told to stop must be killed: a little before belief ends, so
/// that it is gone by then.
///
/// A lock that was taken away leaves no such time. The command still gets that little, to put
/// things in order: the loss was found only with a renewal, so it is small beside what has passed.
async fn too_late(guard: &Guard, term: Duration, reason: LostReason) {
    let ahead = kill_ahead(term);
    if reason == LostReason::Refused {
        SystemClock.sleep_until(SystemClock.now() + ahead).await;
    } else {
        guard.ending(ahead).await;
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

/// Gives the lock back after the command's end. A store that fails now changes nothing about what
/// the command did, so that is a warning; that the lock was gone before is a failure.
pub(crate) async fn give_back(guard: Guard) -> Result<(), Failure> {
    match guard.release().await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Lost => Err(Failure::of_error(&error)
            .advise("the command ran to its end, the last of it without the lock")),
        Err(error) => {
            say::error(&format_args!(
                "warning: the lock was not given back and ends with its ttl: {}",
                Chain(&error)
            ));
            Ok(())
        }
    }
}

/// Gives back what may be lost already: if it is not, the next need not wait for the ttl.
pub(crate) async fn let_go(guard: Guard) {
    let _ = within(&SystemClock, open::FLUSH_MAX, guard.release()).await;
}

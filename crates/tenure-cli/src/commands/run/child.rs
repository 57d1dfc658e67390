//! The command as a process: starting it, passing signals on, stopping it.

use std::ffi::OsString;
use std::future::Future;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, wait,
};
use tenure::Guard;
use tenure::clock::{Clock, Moment, SystemClock, within};
use tokio::signal::unix::{self, SignalKind};

use super::offspring;
use super::tether::tethered;
use super::vigil::Vigil;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::owner_file::{self, OwnerFile};
use crate::terminal;

const LOOK: Duration = Duration::from_millis(10);

/// How long to wait for those who were killed to be gone.
const REAP_MAX: Duration = Duration::from_secs(1);

/// A command: started, but not begun before [`begin`](Self::begin).
///
/// # Contract
/// - Until it has begun, nothing of the command has run: a process of our own waits in its place.
/// - When the lock is lost, no process that descends from the command is left, whatever group or
///   session it has gone to.
/// - When `tenure` is killed, the kernel kills the command, and a
///   [`Warden`](super::warden::Warden) whatever the command has started and kept its environment.
///   When `tenure` is stopped or held up, the warden kills both before the lease can end.
///
/// # What is not promised
/// - A command that runs as another user, through `sudo` or its own file's rights, can be beyond
///   our reach.
/// - What the command leaves running when it ends by itself goes on without the lock.
#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    /// Whether it has a group of its own.
    is_alone: bool,
    ended: Option<ExitStatus>,
    ends: unix::Signal,
    vigil: Vigil,
    /// Children of this process that are none of the command's, besides the warden.
    bystanders: Vec<Pid>,
    owner_file: OwnerFile,
}

/// What there is to know of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It has ended.
    Ended(ExitStatus),
    /// Its warden has ended.
    Unwatched,
}

/// How a command that had to stop was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It, and all that it had started, ended on SIGTERM.
    Terminated,
    /// Something of it did not, and was killed.
    Killed,
    /// Something of it cannot be seen or killed from here, and may go on.
    Remains,
}

impl Child {
    /// Starts the command up to where it waits to begin. It is told the key, the fence, and
    /// where the owner will stand. Unless another word comes, it is killed at `until`.
    pub(super) fn start(
        command: &[OsString],
        guard: &Guard,
        until: Option<Moment>,
    ) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::new(Exit::Usage, "there is no command to run"));
        };
        let ends = unix::signal(SignalKind::child()).map_err(|error| {
            Failure::caused(Exit::Internal, "the command's end cannot be seen", &error)
        })?;
        // Those whose parent ends become our children: then none of them is lost sight of.
        let _ = set_child_subreaper(Some(getpid()));
        let bystanders = offspring::children();
        let owner_file = OwnerFile::create()?;
        // Before there is anyone to kill, so that there is no moment without.
        let mut vigil = Vigil::begin(owner_file.path(), until);
        let is_alone = !terminal::is_there();
        let mut command = tethered(program, arguments, owner_file.path());
        command
            .env("TENURE_KEY", guard.key().as_str())
            .env("TENURE_FENCE", guard.fence().to_string())
            .env(owner_file::VARIABLE, owner_file.path());
        if is_alone {
            command.process_group(0);
        }
        let process = command.spawn().map_err(|error| {
            Failure::caused(Exit::Internal, "no process can be started", &error)
                .advise("see that /proc is there")
        })?;
        let pid = Pid::from_child(&process);
        vigil.guards(pid);
        Ok(Self { pid, is_alone, ended: None, ends, vigil, bystanders, owner_file })
    }

    /// Has the command begin.
    pub(super) fn begin(&mut self, guard: &Guard) -> Result<(), Failure> {
        self.owner_file.hand_out(guard.owner())
    }

    /// Has the command killed at that moment, unless another word comes, whatever becomes of this
    /// process until then.
    pub(super) fn trust(&mut self, until: Option<Moment>) {
        self.bury();
        if self.ended.is_none() {
            self.vigil.trusts(self.owner_file.path(), until);
        }
    }

    /// Waits for news. Cancel-safe.
    pub(super) async fn news(&mut self) -> News {
        loop {
            self.bury();
            if let Some(status) = self.ended {
                return News::Ended(status);
            }
            if self.vigil.is_to_be_renewed() {
                return News::Unwatched;
            }
            self.ends.recv().await;
        }
    }

    /// Whether the warden has killed the command, or is about to, because time was over.
    pub(super) fn is_struck(&mut self) -> bool {
        self.vigil.has_struck()
    }

    /// Takes note of all children that have ended: the command, its warden, and orphans that fell
    /// to us.
    fn bury(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.ended = Some(ExitStatus::from_raw(status.as_raw()));
            }
            self.vigil.bury(pid);
        }
    }

    /// Passes on a signal that came to us, unless the terminal has sent it to the command as well.
    pub(super) fn pass_on(&self, signal: Signal) {
        let by_key = matches!(signal, Signal::INT | Signal::QUIT);
        if !by_key || self.is_alone || !terminal::is_ours() {
            self.signal(signal);
        }
    }

    /// Signals the command itself, and its group if it has one.
    fn signal(&self, signal: Signal) {
        // Once it was waited for, its number may be another's.
        if self.ended.is_none() {
            // That it is gone already is no failure.
            let _ = if self.is_alone {
                kill_process_group(self.pid, signal)
            } else {
                kill_process(self.pid, signal)
            };
        }
    }

    /// Stops the command and all that it has started: SIGTERM now, SIGKILL when `too_late` comes.
    pub(super) async fn stop(&mut self, too_late: impl Future<Output = ()>) -> Stopped {
        self.bury();
        if self.ended.is_some() && !self.is_left() {
            // From beside, before we came to it.
            return Stopped::Killed;
        }
        self.signal_all(Signal::TERM);
        tokio::select! {
            biased;
            () = self.gone() => Stopped::Terminated,
            () = too_late => self.kill().await,
        }
    }

    /// Kills the command and all that it has started.
    pub(super) async fn kill(&mut self) -> Stopped {
        let killed = async {
            // Again, because one that is being killed may have started another.
            while self.is_left() {
                self.signal_all(Signal::KILL);
                self.bury();
                SystemClock.sleep_until(SystemClock.now() + LOOK / 10).await;
            }
        };
        match within(&SystemClock, REAP_MAX, killed).await {
            Ok(()) => Stopped::Killed,
            Err(_) => Stopped::Remains,
        }
    }

    async fn gone(&mut self) {
        loop {
            self.bury();
            if !self.is_left() {
                return;
            }
            SystemClock.sleep_until(SystemClock.now() + LOOK).await;
        }
    }

    /// Whether anyone of the command may be left. Where nobody can be seen, someone may be.
    fn is_left(&self) -> bool {
        offspring::is_left(&self.spared()).unwrap_or(true)
    }

    fn signal_all(&self, signal: Signal) {
        if offspring::signal(&self.spared(), signal).is_err() {
            self.signal(signal);
        }
    }

    fn spared(&self) -> Vec<Pid> {
        self.bystanders.iter().copied().chain(self.vigil.pid()).collect()
    }

    /// The command is over: nobody has to watch any more.
    pub(super) fn leave(self) {
        self.vigil.end();
        drop(self.owner_file);
    }
}

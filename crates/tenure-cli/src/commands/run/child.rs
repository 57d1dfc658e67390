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
use super::warden::Warden;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::owner_file::{self, OwnerFile};
use crate::say;
use crate::signals::uses_terminal;

const LOOK: Duration = Duration::from_millis(10);

/// How long to wait for those who were killed to be gone.
const REAP_MAX: Duration = Duration::from_secs(1);

/// A running command.
///
/// # Contract
/// - When the lock is lost, no process that descends from the command is left, whatever group or
///   session it has gone to.
/// - When `tenure` is killed, the kernel kills the command, and a [`Warden`] whatever the command
///   has started and kept its environment. When `tenure` is stopped or held up, the warden kills
///   both before the lease can end.
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
    warden: Option<Warden>,
    /// Children of this process that are none of the command's.
    bystanders: Vec<Pid>,
    owner_file: OwnerFile,
}

/// How a command that had to stop was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It, and all that it had started, ended on SIGTERM.
    Terminated,
    /// Something of it did not, and was killed.
    Killed,
    /// Something of it cannot be killed from here, and may go on.
    Remains,
}

impl Child {
    /// Starts the command. It is told the key, the fence, and where the owner stands.
    pub(super) fn start(command: &[OsString], guard: &Guard) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::new(Exit::Usage, "there is no command to run"));
        };
        let ends = unix::signal(SignalKind::child()).map_err(|error| {
            Failure::caused(Exit::Internal, "the command's end cannot be seen", &error)
        })?;
        // Those whose parent ends become our children: then none of them is lost sight of.
        let _ = set_child_subreaper(Some(getpid()));
        let mut bystanders = offspring::children();
        let owner_file = OwnerFile::write(guard.owner())?;
        let mut warden = post(&owner_file);
        bystanders.extend(warden.as_ref().map(Warden::pid));
        let is_alone = !uses_terminal();
        let mut command = tethered(program, arguments);
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
        warden.iter_mut().for_each(|warden| warden.guards(pid));
        Ok(Self { pid, is_alone, ended: None, ends, warden, bystanders, owner_file })
    }

    /// Has the command killed at that moment, unless another word comes, whatever becomes of this
    /// process until then.
    pub(super) fn trust(&mut self, until: Moment) {
        self.warden.iter_mut().for_each(|warden| warden.trusts(until));
    }

    /// Waits for the command's end. Cancel-safe.
    pub(super) async fn ended(&mut self) -> ExitStatus {
        loop {
            self.bury();
            if let Some(status) = self.ended {
                return status;
            }
            self.ends.recv().await;
        }
    }

    /// Takes note of all children that have ended: the command, and orphans that fell to us.
    fn bury(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.ended = Some(ExitStatus::from_raw(status.as_raw()));
            }
        }
    }

    /// Passes on a signal that came to us, unless the terminal has sent it to the command as well.
    pub(super) fn pass_on(&self, signal: Signal) {
        let from_terminal = matches!(signal, Signal::INT | Signal::QUIT);
        // Once it was waited for, its number may be another's.
        if self.ended.is_none() && (self.is_alone || !from_terminal) {
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
        if self.ended.is_some() && !offspring::is_left(&self.bystanders) {
            // From beside, before we came to it.
            return Stopped::Killed;
        }
        offspring::signal(&self.bystanders, Signal::TERM);
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
            while offspring::is_left(&self.bystanders) {
                offspring::signal(&self.bystanders, Signal::KILL);
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
            if !offspring::is_left(&self.bystanders) {
                return;
            }
            SystemClock.sleep_until(SystemClock.now() + LOOK).await;
        }
    }

    /// The command is over: nobody has to watch any more.
    pub(super) fn leave(self) {
        self.warden.into_iter().for_each(Warden::dismiss);
        drop(self.owner_file);
    }
}

fn post(owner_file: &OwnerFile) -> Option<Warden> {
    let posted = Warden::post(owner_file.path());
    posted
        .inspect_err(|error| {
            let what = "what the command starts may outlive a tenure that is killed or stopped";
            say::error(&format_args!("warning: {what}: {error}"));
        })
        .ok()
}

//! What ends a command whose `tenure` was killed: the kernel does it to the command, and a process
//! that outlives `tenure` to all that the command has started.
//!
//! Both are this program, started again under a name that no person types.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitCode, Stdio};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use super::child::OWNER_FILE;
use super::offspring::kill_marked;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::say;

/// This program, even when its file was replaced since it started.
const OURSELVES: &str = "/proc/self/exe";
const TETHERED: &str = "--tethered-command";
const WARDEN: &str = "--warden";
const ALL_IS_WELL: &[u8] = b".";

/// How often the warden looks for who is left.
const LOOKS: usize = 200;

/// The part that this process plays, if it was not started by a person.
pub(crate) fn part() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let part = words.next()?;
    if part == TETHERED {
        Some(become_command(words).into())
    } else if part == WARDEN {
        Some(watch(words))
    } else {
        None
    }
}

/// The command, such that the kernel kills it when the thread that starts it ends.
pub(super) fn tethered(program: &OsStr, arguments: &[OsString]) -> Command {
    let mut command = Command::new(OURSELVES);
    command.arg0("tenure").arg(TETHERED).arg(getpid().to_string()).arg(program).args(arguments);
    command
}

/// Asks the kernel, between fork and exec, to be killed with our parent. To ask from there without
/// unsafe code takes a program of our own, which then becomes the command.
fn become_command(mut words: impl Iterator<Item = OsString>) -> Exit {
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let (Some(parent), Some(program)) = (parent, words.next()) else { return Exit::Usage };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        say::error(&format_args!("warning: the command may outlive tenure: {error}"));
    }
    // It may have died before we asked.
    if getppid() != Some(parent) {
        return Exit::Internal;
    }
    let failure = not_started(&program, &Command::new(&program).args(words).exec());
    say::error(&failure);
    failure.exit()
}

/// As a shell says it.
fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => Exit::Internal,
        _ => Exit::NotExecutable,
    };
    Failure::caused(exit, &format!("the command {program:?} cannot be started"), error)
}

/// A process that does nothing while this value lives. If it goes without [`Warden::dismiss`],
/// because `tenure` was killed, all that the command has started is killed too.
#[derive(Debug)]
pub(super) struct Warden {
    pid: Pid,
    line: Option<ChildStdin>,
}

impl Warden {
    /// Whoever has `owner_file` in its environment is the command, or was started by it.
    pub(super) fn post(owner_file: &Path) -> io::Result<Self> {
        let mut child = Command::new(OURSELVES)
            .arg0("tenure")
            .arg(WARDEN)
            .arg(owner_file)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { pid: Pid::from_child(&child), line: child.stdin.take() })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// All went as it should: it ends without doing anything.
    pub(super) fn dismiss(mut self) {
        if let Some(mut line) = self.line.take() {
            let _ = line.write_all(ALL_IS_WELL);
        }
    }
}

fn watch(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(owner_file) = words.next() else { return Exit::Usage.into() };
    let mut said = Vec::new();
    let _ = io::stdin().read_to_end(&mut said);
    if said != ALL_IS_WELL {
        let mut entry = OsString::from(format!("{OWNER_FILE}="));
        entry.push(&owner_file);
        kill_marked(entry.as_encoded_bytes(), LOOKS);
        let _ = std::fs::remove_file(owner_file);
    }
    ExitCode::SUCCESS
}

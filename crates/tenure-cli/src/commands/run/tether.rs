//! The command, tied to `tenure`: the kernel kills it when `tenure` is gone.
//!
//! To ask the kernel for that between fork and exec, without unsafe code, takes a program that then
//! becomes the command: this one, started again under a name that no person types. It becomes the
//! command when the owner is in the owner's file, and not before.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::ourselves::OURSELVES;
use crate::{owner_file, say};

/// The first word of the part.
pub(crate) const TETHERED: &str = "--tethered-command";

/// The command, such that the kernel kills it when the thread that starts it ends.
pub(super) fn tethered(program: &OsStr, arguments: &[OsString], owner_file: &Path) -> Command {
    let mut command = Command::new(OURSELVES);
    command.arg0("tenure").arg(TETHERED).arg(getpid().to_string()).arg(owner_file);
    command.arg(if say::is_in_json() { "json" } else { "text" }).arg(program).args(arguments);
    command
}

/// Becomes the command as soon as it may, unless `tenure` is gone already.
pub(crate) fn become_command(mut words: impl Iterator<Item = OsString>) -> Exit {
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let owner_file = words.next();
    if words.next().is_some_and(|word| word == "json") {
        say::in_json();
    }
    let (Some(parent), Some(owner_file), Some(program)) = (parent, owner_file, words.next()) else {
        return Exit::Usage;
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        say::error(&format_args!("warning: the command may outlive tenure: {error}"));
    }
    let owner_file = Path::new(&owner_file);
    match owner_file::is_handed_out(owner_file) {
        // It may have died before we asked.
        Ok(true) if getppid() == Some(parent) => {}
        Ok(_) => return Exit::Internal,
        Err(error) => {
            let text = format!("the owner's file {} cannot be read", owner_file.display());
            say::failure(&Failure::caused(Exit::Internal, &text, &error));
            return Exit::Internal;
        }
    }
    let failure = not_started(&program, &Command::new(&program).args(words).exec());
    say::failure(&failure);
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

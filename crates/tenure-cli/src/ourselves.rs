//! This program in a part that no person gives it: started again by itself, with the part's name
//! as its first word.

use std::process::ExitCode;

use crate::commands::run::{tether, warden};
use crate::commands::verify;

/// This program, even when its file was replaced since it started.
pub(crate) const OURSELVES: &str = "/proc/self/exe";

/// Plays the part that this process was started for, if it is one.
pub(crate) fn part() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let part = words.next()?;
    if part == tether::TETHERED {
        Some(tether::become_command(words).into())
    } else if part == warden::WARDEN {
        Some(warden::watch(words))
    } else if part == verify::WORKER {
        Some(verify::work())
    } else {
        None
    }
}

//! Processes whose clock is not to be trusted, by libfaketime.
//!
//! It moves what the C library tells. tenure reads the boot clock by a system call of its own, and
//! that is not moved; the wall clock that it shows to people is, and so are, at another rate, the
//! timers of its runtime.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

/// How the clock of a process goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clockwork {
    /// As it should.
    True,
    /// Its wall clock jumps on command.
    Stepping,
    /// At so many hundredths of the rate that it should.
    Rate(u32),
}

/// Where the time of a worker that steps stands, or of a server.
fn order(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("clock-{number}"))
}

/// The number of a server, in its own folder.
pub(crate) const SERVER: u64 = 0;

/// Whether the server that works in this folder has a clock that can be stepped.
pub(crate) fn is_steppable(folder: &Path) -> bool {
    order(folder, SERVER).exists()
}

impl Clockwork {
    /// What a process with this clock has in its environment.
    pub(crate) fn environment(
        self,
        library: &Path,
        folder: &Path,
        number: u64,
    ) -> Result<Vec<(OsString, OsString)>> {
        let mut all: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &str, value: OsString| all.push((name.into(), value));
        match self {
            Self::True => return Ok(all),
            Self::Stepping => {
                let path = order(folder, number);
                fs::write(&path, RIGHT)?;
                set(STEPS_BY, path.into());
                set("FAKETIME_CACHE_DURATION", CACHED_SECONDS.to_string().into());
                // A monotonic clock never steps.
                set("FAKETIME_DONT_FAKE_MONOTONIC", "1".into());
            }
            Self::Rate(percent) => {
                set("FAKETIME", format!("+0 x{}.{:02}", percent / 100, percent % 100).into());
            }
        }
        set("LD_PRELOAD", library.into());
        Ok(all)
    }
}

/// The variable that names the file by which a clock is stepped.
const STEPS_BY: &str = "FAKETIME_TIMESTAMP_FILE";

/// Whether the wall clock of this process jumps.
pub(crate) fn is_stepping() -> bool {
    std::env::var_os(STEPS_BY).is_some()
}

/// For how many seconds the library does not look at that file again.
const CACHED_SECONDS: u64 = 1;

/// How long a worker may go on by the time that it was told before its clock was stepped: the
/// library counts whole seconds.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_secs(CACHED_SECONDS + 1);

/// A wall clock at the truth.
const RIGHT: &str = "+0\n";

/// One that is an hour ahead, or an hour behind.
const WRONG: [&str; 2] = ["+1h\n", "-1h\n"];

/// The rates of a clock, in hundredths.
const RATES: [u32; 3] = [100, 80, 125];

/// Lets a wall clock jump away from the truth.
pub(crate) fn step(folder: &Path, number: u64, choice: u64) -> Result<()> {
    let wrong = WRONG[usize::from(choice.is_multiple_of(2))];
    Ok(fs::write(order(folder, number), wrong)?)
}

/// Lets it jump back.
pub(crate) fn right(folder: &Path, number: u64) -> Result<()> {
    Ok(fs::write(order(folder, number), RIGHT)?)
}

/// Another rate than this.
pub(crate) fn another_rate(rate: u32, choice: u64) -> u32 {
    let place = RATES.iter().position(|other| *other == rate).unwrap_or(0);
    RATES[(place + if choice.is_multiple_of(2) { 1 } else { 2 }) % RATES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_clock_always_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        let told = || fs::read_to_string(order(folder.path(), 7)).unwrap();
        for choice in 0..4 {
            for rate in RATES {
                assert_ne!(another_rate(rate, choice), rate);
            }
            step(folder.path(), 7, choice).unwrap();
            assert_ne!(told(), RIGHT);
            right(folder.path(), 7).unwrap();
            assert_eq!(told(), RIGHT);
        }
    }
}

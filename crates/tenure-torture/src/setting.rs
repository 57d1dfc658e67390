//! Where and when a run was made, for the cards.

use std::time::UNIX_EPOCH;

use tenure::clock::{Clock, SystemClock};

/// In which `cargo xtask` tells which source this was built from.
const COMMIT: &str = "TENURE_COMMIT";

/// Where and when.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The day, as 2026-11-17.
    pub(crate) date: String,
    /// Cores and kernel.
    pub(crate) machine: String,
    /// Which state of the sources this is; `None` where nobody can tell.
    pub(crate) commit: Option<String>,
}

impl Setting {
    /// Here and now.
    pub(crate) fn now() -> Self {
        let since = SystemClock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let name = rustix::system::uname();
        let (system, release) = (name.sysname().to_string_lossy(), name.release());
        let release = release.to_string_lossy();
        let machine = format!("{cores} cores, {system} {release}");
        let commit = std::env::var(COMMIT).ok();
        Self { date: day(since.as_secs() / 86_400), machine, commit }
    }
}

/// The date of a day, counted from the first of 1970 (after Howard Hinnant).
fn day(days: u64) -> String {
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(11_016), "2000-02-29");
        assert_eq!(day(20_774), "2026-11-17");
    }
}

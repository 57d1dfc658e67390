//! Where and when a run was made, for the cards.

use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

use tenure::clock::{Clock, SystemClock};

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
        let commit = commit(Path::new("."));
        Self { date: day(since.as_secs() / 86_400), machine, commit }
    }
}

/// What is changed by the run itself.
const OWN: [&str; 3] = [".", ":(exclude)docs/guarantees", ":(exclude)README.md"];

/// The commit that stands in a folder, and whether anything that is kept there differs from it.
fn commit(folder: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(folder).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let hash = git(&["rev-parse", "--short", "HEAD"])?;
    let asked = [&["status", "--porcelain", "--untracked-files=no", "--"][..], &OWN].concat();
    let changes = git(&asked)?;
    Some(if changes.is_empty() { hash } else { format!("{hash} and changes") })
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

    #[test]
    fn a_commit_is_told_and_whether_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        assert_eq!(commit(at), None);
        let git = |line: &str| {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
            let mut git = Command::new("git");
            git.current_dir(at).args(identity).args(line.split_whitespace());
            assert!(git.output().unwrap().status.success(), "{line}");
        };
        let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
        git("init");
        write("lib.rs", "1");
        write("README.md", "1");
        git("add .");
        git("commit --no-gpg-sign -m one");
        let hash = commit(at).unwrap();
        assert!(hash.len() >= 7 && !hash.contains(' '), "{hash}");
        // What a run writes itself, and what is not kept, is no change.
        write("README.md", "2");
        write("notes", "2");
        assert_eq!(commit(at).unwrap(), hash);
        write("lib.rs", "2");
        assert_eq!(commit(at).unwrap(), format!("{hash} and changes"));
    }
}

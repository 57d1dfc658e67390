//! Which source was measured.

use std::process::Command;

/// What a run writes itself, and what only tells of it, is no change of what is measured.
const SOURCE: [&str; 3] = [":/", ":(top,exclude)docs", ":(top,exclude)README.md"];

/// The commit that this program was built from, and whether something was changed since; `None`
/// where the source is in no repository.
pub(crate) fn here() -> Option<String> {
    // The source may have been put into the repository of something else.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_clean = git(&[&["diff", "--quiet", "HEAD", "--"], &SOURCE[..]].concat()).is_some();
    Some(if is_clean { commit } else { format!("{commit} and changes") })
}

/// What it says, if it succeeds. Cargo starts a benchmark in the folder of its crate.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}

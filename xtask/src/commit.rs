//! Which state of the sources a run is made of, for the pages that it writes.

use std::path::Path;
use std::process::Command;

use crate::command::{command, output, succeeds};

/// Tells programs that write pages which source that is.
const VARIABLE: &str = "TENURE_COMMIT";

/// What such a run writes itself, and what only tells of it, is no change of what was tried out.
const SOURCE: &str = ":/ :(top,exclude)docs :(top,exclude,glob)*.md";

/// What a hook of git tells of the repository that it runs for.
const OF_HOOKS: [&str; 3] = ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"];

/// What a program that writes pages has in its environment.
pub(crate) fn told(root: &Path) -> Option<(&'static str, String)> {
    here(root).map(|commit| (VARIABLE, commit))
}

/// The commit that stands in a folder, and whether anything that is kept there differs from it;
/// `None` where the source is in no repository.
fn here(root: &Path) -> Option<String> {
    // The source may have been put into the repository of something else.
    let is_kept = succeeds(&mut git(root, "ls-files --error-unmatch Cargo.toml"));
    let hash = is_kept.then(|| output(&mut git(root, "rev-parse --short=12 HEAD")).ok()).flatten();
    let hash = String::from_utf8(hash?).ok()?.trim().to_owned();
    let is_clean = succeeds(&mut git(root, &format!("diff --quiet HEAD -- {SOURCE}")));
    Some(if is_clean { hash } else { format!("{hash} and changes") })
}

fn git(folder: &Path, words: &str) -> Command {
    let mut git = command(folder, &format!("git {words}"));
    for name in OF_HOOKS {
        git.env_remove(name);
    }
    git
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_commit_is_told_and_whether_it_was_changed() {
        let folder = std::env::temp_dir().join(format!("tenure-commit-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(folder.join("docs")).unwrap();
        let git = |line: &str| {
            let words = format!("-c user.name=x -c user.email=x@example.com {line}");
            assert!(succeeds(&mut git(&folder, &words)), "{line}");
        };
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        git("init");
        write("Cargo.toml", "1");
        write("docs/page.md", "1");
        assert_eq!(here(&folder), None, "nothing is kept there yet");
        git("add .");
        git("commit --no-gpg-sign -m one");
        let hash = here(&folder).unwrap();
        assert!(hash.len() == 12 && !hash.contains(' '), "{hash}");
        // What a run writes itself, and what is not kept, is no change.
        write("docs/page.md", "2");
        write("notes", "2");
        assert_eq!(here(&folder), Some(hash.clone()));
        write("Cargo.toml", "2");
        assert_eq!(here(&folder), Some(format!("{hash} and changes")));
        fs::remove_dir_all(&folder).unwrap();
    }
}

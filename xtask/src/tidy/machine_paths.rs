//! No file tells on whose machine it was written.

use super::Finding;
use super::tree::Tree;

const REFUSED: &[&str] = &["/work/", "/root/"]; // tidy-allow: the rule itself

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (number, line) in file.lines() {
            for path in REFUSED.iter().filter(|path| has_absolute(line, path)) {
                findings.push(Finding::new(
                    file,
                    number,
                    format!("names a machine path, `{path}`"),
                ));
            }
        }
    }
    findings
}

/// Whether the path begins there: `a/b/` holds `/b/`, but not as an absolute path.
fn has_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn only_absolute_paths_count() {
        for line in ["/here/x", "see `/here/x`", "PATH=/here/x", "a:/here/x"] {
            assert!(has_absolute(line, "/here/"), "{line}");
        }
        for line in ["src/here/x", "../here/x", "~/here/x", "${HOME}/here/x", "/heres/x"] {
            assert!(!has_absolute(line, "/here/"), "{line}");
        }
    }

    #[test]
    fn any_file_is_looked_at() {
        for path in REFUSED {
            let text = format!("a\nb {path}c\n");
            assert_eq!(places(check, &[("x", &text)]), ["x:2"]);
        }
    }
}

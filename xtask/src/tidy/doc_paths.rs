//! Documents point only to files that exist: by link, and by the path in inline code.

use super::Finding;
use super::markdown::{Piece, current_pieces};
use super::tree::{File, Tree};

/// What begins so in inline code is a path from the root of the repository.
const ROOTS: &[&str] = &["crates/", "docs/", "xtask/", ".ci/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.markdown() {
        for (line, piece) in current_pieces(file) {
            let missing = match &piece {
                Piece::Code(code) => missing_path(tree, code),
                Piece::Link(target) => missing_target(tree, file, target),
            };
            if let Some(path) = missing {
                findings.push(Finding::new(file, line, format!("there is no `{path}`")));
            }
        }
    }
    findings
}

/// Of the words of inline code, the first path that is not there. Patterns are no paths.
fn missing_path<'a>(tree: &Tree, code: &'a str) -> Option<&'a str> {
    code.split_whitespace()
        .filter(|word| ROOTS.iter().any(|root| word.starts_with(root)))
        .filter(|word| !word.contains(['*', '<', '{', '$', '…']))
        .map(|word| word.split(':').next().unwrap_or(word))
        .find(|path| !tree.contains(path))
}

/// The target of a link, when it is a path and nothing is there.
fn missing_target<'a>(tree: &Tree, file: &File, target: &'a str) -> Option<&'a str> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    let path = target.split('#').next().unwrap_or_default();
    let is_there = || resolve(file.folder(), path).is_some_and(|path| tree.contains(&path));
    (!is_elsewhere && !path.is_empty() && !is_there()).then_some(path)
}

/// The path from the root of the repository; `None` when it leads out of it.
fn resolve(folder: &str, path: &str) -> Option<String> {
    let folder = if path.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    const NONE: [&str; 0] = [];

    fn found(path: &str, text: &str) -> Vec<String> {
        places(check, &[(path, text), ("crates/a/src/lib.rs", ""), ("docs/b.md", "")])
    }

    #[test]
    fn inline_paths_must_exist() {
        assert_eq!(found("R.md", "`crates/a/`\n`crates/c`\n`src/x.rs`"), ["R.md:2"]);
        assert_eq!(found("R.md", "`cat docs/b.md docs/c.md`"), ["R.md:1"]);
        assert_eq!(found("R.md", "`crates/a/src/lib.rs:12` `crates/*/x` `docs/<name>.md`"), NONE);
    }

    #[test]
    fn links_are_relative_to_their_file() {
        assert_eq!(found("R.md", "[b](docs/b.md#top) [t](#top) [w](https://a.b/c)"), NONE);
        assert_eq!(found("docs/c.md", "[b](b.md) [l](../crates/a) [r](/docs/b.md)"), NONE);
        assert_eq!(
            found("docs/c.md", "[b](docs/b.md)\n[o](../../x)"),
            ["docs/c.md:1", "docs/c.md:2"]
        );
    }
}

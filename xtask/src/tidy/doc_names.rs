//! Documents name only code that exists: `Type::method` and `tenure::path` in inline code.

use std::collections::HashSet;

use super::Finding;
use super::markdown::{Piece, current_pieces};
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let known: HashSet<String> = tree
        .rust()
        .filter(|(file, _)| file.path().starts_with("crates/"))
        .flat_map(|(_, source)| source.words())
        .collect();
    let mut findings = Vec::new();
    for file in tree.markdown() {
        for (line, piece) in current_pieces(file) {
            let Piece::Code(code) = piece else { continue };
            if let Some(name) = names(&code).into_iter().find(|name| !known.contains(*name)) {
                let message = format!("`{code}`: there is no `{name}` in crates/");
                findings.push(Finding::new(file, line, message));
            }
        }
    }
    findings
}

/// The names in a path of ours, without the crate; empty when the code is no such path.
fn names(code: &str) -> Vec<&str> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let path = code.split(|c| !is_path(c)).next().unwrap_or_default();
    let parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [_] => Vec::new(),
        [first, rest @ ..] if *first == "tenure" || first.starts_with("tenure_") => rest.to_vec(),
        [first, ..] if is_camel_case(first) => parts,
        _ => Vec::new(),
    }
}

fn is_camel_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_uppercase()) && name.contains(|c: char| c.is_lowercase())
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn only_paths_of_ours_hold_names() {
        assert_eq!(names("Locks::open(\"redis://x\")"), ["Locks", "open"]);
        assert_eq!(names("tenure::stores::KINDS"), ["stores", "KINDS"]);
        assert_eq!(names("tenure::{Key, Owner}"), [] as [&str; 0]);
        for code in ["Store", "std::fmt::Debug", "redis://host", "A::b", "guard.fence()", ""] {
            assert_eq!(names(code), [] as [&str; 0], "{code}");
        }
    }

    #[test]
    fn a_name_must_stand_in_the_code_of_a_crate() {
        let code = "impl Locks {\n    /// Not `close`.\n    fn open() {}\n}\n";
        let doc = "`Locks::open()`\n`Locks::close`\n`Lock::open`\n`tenure::open`\n";
        let files = [
            ("crates/tenure/src/a.rs", code),
            ("xtask/src/a.rs", "fn close() {}"),
            ("README.md", doc),
        ];
        assert_eq!(places(check, &files), ["README.md:2", "README.md:3"]);
    }
}

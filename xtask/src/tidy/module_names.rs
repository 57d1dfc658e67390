//! A file has the name of its idea: what could hold anything soon does.

use super::Finding;
use super::tree::{File, Tree};

const REFUSED: &[&str] = &["common", "helpers", "misc", "util", "utils"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        let module = module(file);
        if REFUSED.contains(&module) {
            let message = format!("module is called `{module}`: name it after what it holds");
            findings.push(Finding::new(file, 1, message));
        }
    }
    findings
}

/// `a/b.rs` and `a/b/mod.rs` are both the module `b`.
fn module(file: &File) -> &str {
    match file.name().strip_suffix(".rs").unwrap_or_default() {
        "mod" => file.folder().rsplit('/').next().unwrap_or_default(),
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn both_forms_of_a_module_are_seen() {
        let files = [
            ("src/util.rs", ""),
            ("tests/common/mod.rs", ""),
            ("src/utility.rs", ""),
            ("util.md", ""),
        ];
        assert_eq!(places(check, &files), ["src/util.rs:1", "tests/common/mod.rs:1"]);
    }
}

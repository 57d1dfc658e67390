//! Nothing is left for later, and no test is switched off.

use super::Finding;
use super::tree::Tree;

const REFUSED: &[&str] = &[
    "#[ignore",        // tidy-allow: the rule itself
    "```ignore",       // tidy-allow: the rule itself
    "```rust,ignore",  // tidy-allow: the rule itself
    "todo!(",          // tidy-allow: the rule itself
    "unimplemented!(", // tidy-allow: the rule itself
    "FIXME",           // tidy-allow: the rule itself
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (number, line) in file.lines() {
            for left in REFUSED.iter().filter(|left| line.contains(**left)) {
                findings.push(Finding::new(file, number, format!("has `{left}`")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn each_is_found_in_any_file() {
        for left in REFUSED {
            let text = format!("a\n    {left}\n");
            assert_eq!(places(check, &[("a.rs", &text)]), ["a.rs:2"], "{left}");
        }
        assert_eq!(places(check, &[("a.rs", "mutodo(); /// ```\n")]), [] as [&str; 0]);
    }
}

//! A line of Rust fits beside another. rustfmt leaves long strings and comments as they are.

use super::Finding;
use super::tree::Tree;

const CHARACTERS_MAX: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        for (number, line) in file.lines() {
            let characters = line.chars().count();
            // An address cannot be broken.
            if characters > CHARACTERS_MAX && !line.contains("://") {
                let message = format!("line has {characters} characters, over {CHARACTERS_MAX}");
                findings.push(Finding::new(file, number, message));
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
    fn characters_count_and_not_bytes() {
        let wide = "ü".repeat(100);
        let long = "u".repeat(101);
        let address = format!("// https://{long}");
        let text = format!("{wide}\n{long}\n{address}\n");
        assert_eq!(places(check, &[("a.rs", &text), ("a.md", &text)]), ["a.rs:2"]);
    }
}

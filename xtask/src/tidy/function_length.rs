//! A function fits on one screen, comments included. Tests too.

use super::Finding;
use super::tree::Tree;

const LINES_MAX: usize = 70;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        for function in source.functions() {
            let lines = function.last_line - function.first_line + 1;
            if lines > LINES_MAX {
                let message = format!("`{}` has {lines} lines, over {LINES_MAX}", function.name);
                findings.push(Finding::new(file, function.first_line, message));
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
    fn the_limit_counts_signature_and_closing_brace() {
        let function =
            |lines: usize| format!("\nfn a() {{\n{}}}\n", "    b();\n".repeat(lines - 2));
        assert_eq!(places(check, &[("a.rs", &function(70))]), [] as [&str; 0]);
        assert_eq!(places(check, &[("a.rs", &function(71))]), ["a.rs:2"]);
    }
}

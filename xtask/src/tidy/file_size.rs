//! One idea per file: a file that grows past the limit holds two.

use super::Finding;
use super::tree::Tree;

const CODE_LINES_MAX: usize = 600;
const CODE_LINES_WARN: usize = 400;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let is_test = file.folder().split('/').any(|folder| folder == "tests");
        let lines = if is_test { source.code_lines() } else { source.code_lines_without_tests() };
        if lines > CODE_LINES_MAX {
            let message = format!("file has {lines} lines of code, over {CODE_LINES_MAX}");
            findings.push(Finding::new(file, 1, message));
        } else if lines > CODE_LINES_WARN {
            let message = format!("file has {lines} lines of code, better {CODE_LINES_WARN}");
            findings.push(Finding::warning(file, 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_the_soft_limit_warns_and_over_the_hard_one_fails() {
        let found = |lines: usize| {
            let text = "use a;\n// why\n\n".repeat(lines);
            let findings = check(&Tree::of(&[("src/a.rs", &text)]));
            findings.into_iter().map(|finding| finding.is_warning).collect::<Vec<_>>()
        };
        assert_eq!(found(400), []);
        assert_eq!(found(401), [true]);
        assert_eq!(found(600), [true]);
        assert_eq!(found(601), [false]);
    }

    #[test]
    fn a_file_of_tests_counts_whole() {
        let text = format!("#[cfg(test)]\nmod a {{\n{}}}\n", "use a;\n".repeat(600));
        let found = check(&Tree::of(&[("x/src/a.rs", &text), ("x/tests/a.rs", &text)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "x/tests/a.rs");
    }
}

//! `cargo xtask tidy`: the rules of this repository that no compiler knows, one file each.
//!
//! A line that says `tidy-allow` is exempt from all of them; say the reason on it.

mod cards;
mod crate_lints;
mod doc_names;
mod doc_paths;
mod file_size;
mod function_length;
mod leftovers;
mod line_length;
mod machine_paths;
mod markdown;
mod module_names;
mod prereleases;
mod rust;
mod tree;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use tree::{File, Tree};

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    cards::check,
    crate_lints::check,
    doc_names::check,
    doc_paths::check,
    file_size::check,
    function_length::check,
    leftovers::check,
    line_length::check,
    machine_paths::check,
    module_names::check,
    prereleases::check,
    words::check,
];

const ALLOW: &str = "tidy-allow";

/// Prints everything that is found, and fails when any of it is more than a warning.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::load(root)?;
    let findings = findings(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| !finding.is_warning).count();
    println!(
        "tidy: {} files, {errors} violations, {} warnings",
        tree.files().count(),
        findings.len() - errors
    );
    if errors > 0 {
        bail!("tidy found {errors} violations");
    }
    Ok(())
}

fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    findings.retain(|finding| !is_allowed(tree, finding));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

fn is_allowed(tree: &Tree, finding: &Finding) -> bool {
    let line = tree
        .file(&finding.path)
        .and_then(|file| file.text().lines().nth(finding.line.saturating_sub(1)));
    line.is_some_and(|line| line.contains(ALLOW))
}

/// Something that breaks a rule, and where.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    message: String,
    is_warning: bool,
}

impl Finding {
    fn new(file: &File, line: usize, message: impl Into<String>) -> Self {
        Self { path: file.path().to_owned(), line, message: message.into(), is_warning: false }
    }

    fn warning(file: &File, line: usize, message: impl Into<String>) -> Self {
        Self { is_warning: true, ..Self::new(file, line, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warning = if self.is_warning { "warning: " } else { "" };
        write!(f, "{}:{}: {warning}{}", self.path, self.line, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a check finds, as `path:line`.
    pub(super) fn places(check: Check, files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Tree::of(files));
        findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn an_allowed_line_is_no_finding() {
        let long = "x".repeat(101);
        let text = format!("// {long}\n// {long} {ALLOW}: a table\n");
        let found = findings(&Tree::of(&[("src/a.rs", &text)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].to_string(), "src/a.rs:1: line has 104 characters, over 100");
    }
}

//! Every crate takes the lints of the workspace.

use super::Finding;
use super::tree::Tree;
use crate::manifest::table;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_crate = |text: &str| !table(text, "package").is_empty();
    let takes_lints = |text: &str| {
        table(text, "lints").iter().any(|entry| entry.key == "workspace" && entry.value == "true")
    };
    tree.files()
        .filter(|file| file.name() == "Cargo.toml" && is_crate(file.text()))
        .filter(|file| !takes_lints(file.text()))
        .map(|file| Finding::new(file, 1, "has no `[lints] workspace = true`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn a_crate_needs_it_and_the_workspace_does_not() {
        let files = [
            ("Cargo.toml", "[workspace]\nmembers = []\n"),
            ("a/Cargo.toml", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"),
            ("b/Cargo.toml", "[package]\nname = \"b\"\n\n[dependencies]\nworkspace = true\n"),
        ];
        assert_eq!(places(check, &files), ["b/Cargo.toml:1"]);
    }
}

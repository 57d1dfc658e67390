//! The summary of the guarantee cards in README is the one that was generated with them, and none
//! of them tells of a run that failed.

use super::Finding;
use super::tree::Tree;

const FOLDER: &str = "docs/guarantees/";

/// What a card's row says of a run that failed.
const FAILED: &str = ": FAILED |";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let readme = tree.file("README.md");
    let summary = tree.file("docs/guarantees/README.md");
    let (Some(readme), Some(summary)) = (readme, summary) else { return Vec::new() };
    let shown: Vec<&str> = readme.text().lines().collect();
    let rows = summary.text().lines().enumerate().filter(|(_, line)| line.starts_with("| ["));
    let complaint = |row: &str| {
        if row.contains(FAILED) {
            return Some(format!("a run that failed: {row}"));
        }
        let is_shown = shown.contains(&seen_from_root(row).as_str());
        (!is_shown).then(|| format!("README.md does not show: {row}"))
    };
    rows.filter_map(|(at, row)| Some(Finding::new(summary, at + 1, complaint(row)?))).collect()
}

/// A row with the link that leads to its card from the root.
fn seen_from_root(row: &str) -> String {
    row.replacen("](", &format!("]({FOLDER}"), 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn every_card_is_in_readme_as_it_is() {
        let cards = "| store | faults |\n|---|---|\n| [a](a.md) | 1 |\n| [b](b.md) | 2 |\n";
        let readme = "| [a](docs/guarantees/a.md) | 1 |\n| [b](docs/guarantees/b.md) | 3 |\n";
        let files = [("docs/guarantees/README.md", cards), ("README.md", readme)];
        assert_eq!(places(check, &files), ["docs/guarantees/README.md:4"]);
        assert_eq!(places(check, &files[1..]), [] as [&str; 0]);
        let (failed, shown) =
            ("| [a](a.md) | 1: FAILED |\n", "| [a](docs/guarantees/a.md) | 1: FAILED |\n");
        let files = [("docs/guarantees/README.md", failed), ("README.md", shown)];
        assert_eq!(places(check, &files), ["docs/guarantees/README.md:1"]);
    }
}

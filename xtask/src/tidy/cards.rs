//! The summary of the guarantee cards in README is the one that was generated with them, row by
//! row, and no page tells of something that failed.

use super::Finding;
use super::tree::{File, Tree};

const FOLDER: &str = "docs/guarantees/";
const SUMMARY: &str = "docs/guarantees/README.md";

/// What every page says of what failed.
const FAILED: &str = "FAILED";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files().filter(|file| file.path().starts_with(FOLDER));
    let mut findings: Vec<Finding> = pages.flat_map(failed).collect();
    let shown = tree.file("README.md").map(|file| rows(file, FOLDER)).unwrap_or_default();
    let made = tree.file(SUMMARY).map(|file| rows(file, "")).unwrap_or_default();
    findings.extend(missing(&made, &shown, "README.md"));
    findings.extend(missing(&shown, &made, FOLDER));
    findings
}

fn failed(page: &File) -> impl Iterator<Item = Finding> {
    let lines = page.lines().filter(|(_, line)| line.contains(FAILED));
    lines.map(|(at, line)| Finding::new(page, at, format!("tells of a failure: {line}")))
}

/// A row that begins with a link to a card.
struct Row<'a> {
    file: &'a File,
    at: usize,
    /// As it stands beside the cards.
    text: String,
}

/// The rows of a file from which the cards are in that folder.
fn rows<'a>(file: &'a File, folder: &str) -> Vec<Row<'a>> {
    let link = format!("]({folder}");
    let is_row = |line: &str| line.starts_with("| [") && line.contains(&link);
    let lines = file.lines().filter(|(_, line)| is_row(line));
    lines.map(|(at, line)| Row { file, at, text: line.replacen(&link, "](", 1) }).collect()
}

/// What one has and the other has not.
fn missing(of: &[Row<'_>], other: &[Row<'_>], name: &str) -> Vec<Finding> {
    let is_missing = |row: &&Row<'_>| other.iter().all(|shown| shown.text != row.text);
    let finding = |row: &Row<'_>| {
        Finding::new(row.file, row.at, format!("{name} does not show: {}", row.text))
    };
    of.iter().filter(is_missing).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn every_card_is_in_readme_as_it_is_and_no_other() {
        let cards = "| store | faults |\n|---|---|\n| [a](a.md) | 1 |\n| [b](b.md) | 2 |\n";
        let readme = "| [a](docs/guarantees/a.md) | 1 |\n| [b](docs/guarantees/b.md) | 3 |\n";
        let files = [(SUMMARY, cards), ("README.md", readme)];
        assert_eq!(places(check, &files), ["docs/guarantees/README.md:4", "README.md:2"]);
        assert_eq!(places(check, &files[1..]), ["README.md:1", "README.md:2"]);
        let fewer = [(SUMMARY, "| [a](a.md) | 1 |\n"), ("README.md", readme)];
        assert_eq!(places(check, &fewer), ["README.md:2"]);
    }

    #[test]
    fn no_page_tells_of_a_failure() {
        for (page, text) in [
            ("docs/guarantees/a.md", "This run FAILED: 2 violations.\n"),
            ("docs/guarantees/planted.md", "| bug: FAILED | redis |\n"),
            (SUMMARY, "- [a](a.md): FAILED\n"),
        ] {
            assert_eq!(places(check, &[(page, text)]), [format!("{page}:1")]);
        }
        assert_eq!(places(check, &[("docs/a.md", "FAILED\n")]), [] as [&str; 0]);
    }
}

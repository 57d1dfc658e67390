//! A reader of Markdown that knows just enough: inline code and links, outside of code blocks.

use super::tree::File;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Code(String),
    Link(String),
}

/// The pieces of what a document says about today: a changelog's older releases are left out.
pub(super) fn current_pieces(file: &File) -> Vec<(usize, Piece)> {
    let text = file.text();
    let is_changelog = file.name() == "CHANGELOG.md";
    match text.match_indices("\n## ").nth(1) {
        Some((end, _)) if is_changelog => pieces(&text[..end]),
        _ => pieces(text),
    }
}

/// Each piece with its line, from 1.
fn pieces(text: &str) -> Vec<(usize, Piece)> {
    let mut pieces = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let marker = ["```", "~~~"].into_iter().find(|m| line.trim_start().starts_with(m));
        match (fence, marker) {
            (None, None) => {
                pieces.extend(line_pieces(line).into_iter().map(|piece| (index + 1, piece)));
            }
            (None, opening) => fence = opening,
            (Some(open), Some(closing)) if open == closing => fence = None,
            (Some(_), _) => {}
        }
    }
    pieces
}

fn line_pieces(line: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut prose = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        prose += &rest[..start];
        let after = rest[start..].trim_start_matches('`');
        let ticks = &rest[start..rest.len() - after.len()];
        let Some(end) = after.find(ticks) else {
            rest = after;
            continue;
        };
        pieces.push(Piece::Code(after[..end].trim().to_owned()));
        rest = after[end + ticks.len()..].trim_start_matches('`');
    }
    prose += rest;
    pieces.extend(links(&prose).into_iter().map(|target| Piece::Link(target.to_owned())));
    pieces
}

fn links(prose: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (start, _) in prose.match_indices("](") {
        targets.push(until_closed(&prose[start + 2..]));
    }
    if let Some((label, target)) = prose.trim_start().split_once("]: ")
        && label.starts_with('[')
        && !label.starts_with("[^")
    {
        targets.push(target);
    }
    for attribute in ["src=\"", "href=\"", "srcset=\""] {
        for (start, _) in prose.match_indices(attribute) {
            targets.extend(prose[start + attribute.len()..].split('"').next());
        }
    }
    // A title may follow the target.
    targets.iter().filter_map(|target| target.split_whitespace().next()).map(unbracketed).collect()
}

fn unbracketed(target: &str) -> &str {
    target.trim_start_matches('<').trim_end_matches('>')
}

/// Up to the parenthesis that closes the link; a target may hold pairs of its own.
fn until_closed(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return &text[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    fn code(text: &str) -> Piece {
        Piece::Code(text.to_owned())
    }

    fn link(text: &str) -> Piece {
        Piece::Link(text.to_owned())
    }

    #[test]
    fn inline_code_is_found_and_blocks_are_not_read() {
        let text = "Use `a` and ``b ` c``.\n```rust\nlet x = `no`;\n~~~\n```\nThen `d`.\n";
        assert_eq!(pieces(text), [(1, code("a")), (1, code("b ` c")), (6, code("d"))]);
    }

    #[test]
    fn only_a_changelog_has_a_past() {
        let text = "# Changes\n\n## Unreleased\n`a`\n\n## 0.1.0\n`b`\n";
        let tree = Tree::of(&[("CHANGELOG.md", text), ("README.md", text)]);
        let of = |path| current_pieces(tree.file(path).unwrap());
        assert_eq!(of("CHANGELOG.md"), [(4, code("a"))]);
        assert_eq!(of("README.md"), [(4, code("a")), (7, code("b"))]);
    }

    #[test]
    fn links_of_every_form_are_found() {
        for (line, target) in [
            ("see [x](docs/a.md) now", "docs/a.md"),
            ("see [x](a_(b).md)", "a_(b).md"),
            ("![x](a.png \"a title\")", "a.png"),
            ("[x]: <a.md>", "a.md"),
            ("<img src=\"a.png\" width=\"3\">", "a.png"),
        ] {
            assert_eq!(pieces(line), [(1, link(target))], "{line}");
        }
    }

    #[test]
    fn code_can_be_the_text_of_a_link_but_holds_none() {
        assert_eq!(pieces("[`a`](b)"), [(1, code("a")), (1, link("b"))]);
        assert_eq!(pieces("`[a](b)`"), [(1, code("[a](b)"))]);
        assert_eq!(pieces("a lone ` tick, []() and [^1]: note"), []);
    }
}

//! What `tenure` itself writes: whole lines on stderr, safe to show on a terminal. Stdout belongs
//! to the command.

use std::fmt::Display;
use std::io::Write;

/// Says that something failed or went another way than asked.
pub(crate) fn error(what: &dyn Display) {
    line(&format!("tenure: {what}"));
}

/// Says how things stand.
pub(crate) fn progress(what: &dyn Display) {
    line(&what.to_string());
}

/// One write, so that lines of several processes do not mix. Nobody to read it is no failure.
fn line(text: &str) {
    let text = format!("{}\n", plain(text));
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The text without what could steer a terminal, break the line or turn its direction: parts of it
/// come from the store, where anyone may have written them.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !turns_text(*c)).collect()
}

fn turns_text(c: char) -> bool {
    matches!(
        c,
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("host/1 \u{1b}[31mred\u{7}\r\nnext\u{9b}2J"), "host/1 [31mrednext2J");
        assert_eq!(plain("a\u{202e}b\u{2028}c"), "abc");
        assert_eq!(plain("ключ 🔒 \"k\""), "ключ 🔒 \"k\"");
    }
}

//! Text that is safe to show on a terminal.

/// The text without what could steer a terminal, break the line or turn its direction: parts of it
/// come from the store, where anyone may have written them.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !turns_text(*c)).collect()
}

fn turns_text(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("host/1 \u{1b}[31mred\u{7}\r\nnext\u{9b}2J"), "host/1 [31mrednext2J");
        assert_eq!(plain("a\u{202e}b\u{2028}c\u{61c}d"), "abcd");
        assert_eq!(plain("ключ 🔒 \"k\""), "ключ 🔒 \"k\"");
    }
}

//! Colours: only on a terminal, and not where `NO_COLOR` is set.

use std::io::IsTerminal;

/// How a word is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Strong,
    Faint,
    Good,
    Doubtful,
    Bad,
}

/// Whether colours may be used on one of the standard streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style(bool);

impl Style {
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty());
        Self(wanted && stream.is_terminal())
    }

    pub(crate) const fn has_colours(self) -> bool {
        self.0
    }

    /// The text in this tone, or as it is. It must be safe to show already.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Doubtful => "33",
            Tone::Bad => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_the_text_is_as_it_was() {
        assert_eq!(Style(false).paint(Tone::Bad, "lost"), "lost");
        assert_eq!(Style(true).paint(Tone::Bad, "lost"), "\u{1b}[31mlost\u{1b}[0m");
    }
}

//! What a terminal can show, and whether this process belongs to one.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

/// To the beginning of the line, and away with what is on it.
pub(crate) const ERASE: &str = "\r\u{1b}[K";

/// The width that is used where nobody says how wide it is.
const USUAL_WIDTH: usize = 80;

/// How many characters fit on a line of this stream; a usual number where nobody says.
pub(crate) fn width(stream: &impl AsFd) -> usize {
    known_width(stream).unwrap_or(USUAL_WIDTH)
}

/// How many characters fit on a line of this terminal; `None` where there is none, or it does not
/// say.
pub(crate) fn known_width(stream: &impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Whether block characters can be drawn there: on a terminal that shows UTF-8.
pub(crate) fn has_blocks(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && is_utf8(|name| std::env::var(name).ok())
}

/// Shows the text on stderr in place of what the line had; none erases it. It must be safe to show
/// already.
pub(crate) fn redraw(text: &str) {
    let _ = io::stderr().write_all(format!("{ERASE}{text}").as_bytes());
}

/// Whether this process has a terminal whose keys make signals: also when none of its streams is
/// that terminal, because a program may open it by its name.
pub(crate) fn is_there() -> bool {
    controlling().is_some()
}

/// Whether that terminal sends its signals to our process group now.
pub(crate) fn is_ours() -> bool {
    controlling().is_some_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}

fn controlling() -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open("/dev/tty", flags, Mode::empty()).ok()
}

/// As the C library decides it: the first of these that says anything.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty())
        .unwrap_or_default()
        .to_ascii_lowercase();
    said.ends_with("utf-8") || said.ends_with("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let said = |pairs: &[(&str, &str)]| {
            is_utf8(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(said(&[("LANG", "de_DE.UTF-8")]));
        assert!(said(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!said(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!said(&[]));
    }
}

//! One line on stderr that shows how far a command is: on a terminal only.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use tenure::clock::{Clock, Moment, SystemClock};

use crate::plain::plain;
use crate::terminal;

const BAR: usize = 24;

/// How often the line is drawn at the most.
const DRAW: Duration = Duration::from_millis(100);

/// The line. It is gone when this value is.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
    has_blocks: bool,
    /// When to draw again.
    next: Cell<Moment>,
}

impl Progress {
    /// A line, unless stderr is no terminal or nothing is to be said.
    pub(crate) fn new(quiet: bool) -> Self {
        let stderr = io::stderr();
        Self {
            is_shown: !quiet && stderr.is_terminal(),
            has_blocks: terminal::has_blocks(&stderr),
            next: Cell::new(SystemClock.now()),
        }
    }

    /// Shows that this share, from 0 to 1, is done.
    pub(crate) fn show(&self, share: f64, text: &str) {
        let now = SystemClock.now();
        if self.is_shown && now >= self.next.get() {
            self.next.set(now + DRAW);
            let width = terminal::width(&io::stderr()).saturating_sub(1);
            let line = line(share, text, self.has_blocks, width);
            terminal::redraw(&line);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            terminal::redraw("");
        }
    }
}

fn line(share: f64, text: &str, has_blocks: bool, width: usize) -> String {
    let (full, empty) = if has_blocks { ("█", "░") } else { ("#", ".") };
    let done = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let bar = full.repeat(done) + &empty.repeat(BAR - done);
    let percent = share.clamp(0.0, 1.0) * 100.0;
    let line = format!("{bar} {percent:3.0} %  {}", plain(text));
    line.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_and_the_line_never_wraps() {
        assert_eq!(line(0.0, "a", false, 80), "........................   0 %  a");
        assert_eq!(line(0.5, "a", false, 80), "############............  50 %  a");
        assert_eq!(line(7.0, "a\r", true, 80), "████████████████████████ 100 %  a");
        assert_eq!(line(0.5, "a", true, 10).chars().count(), 10);
    }
}

//! Leases as a table for people.

use std::fmt::Write;
use std::io;
use std::time::SystemTime;

use tenure::Status;

use crate::plain::plain;
use crate::spans::span;
use crate::style::{Style, Tone};

const HEAD: [&str; COLUMNS] = ["KEY", "HOLDER", "AGE", "TTL LEFT", "FENCE"];
const COLUMNS: usize = 5;
const KEY: usize = 0;
const HOLDER: usize = 1;
const GAP: &str = "  ";

/// No column that is cut becomes narrower than this.
const CUT_MIN: usize = 8;

/// A line for each lease, safe to show.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<[String; COLUMNS]>,
}

impl Table {
    /// The leases as they are at `now`.
    pub(super) fn new(leases: &[Status], now: SystemTime) -> Self {
        let row = |status: &Status| {
            let age = now.duration_since(status.granted_at).unwrap_or_default();
            [
                plain(status.key.as_str()),
                plain(status.holder.as_str()),
                span(age),
                span(status.remaining),
                status.fence.to_string(),
            ]
        };
        Self { rows: leases.iter().map(row).collect() }
    }

    /// Only the first `count` lines.
    pub(super) fn keep(&mut self, count: usize) {
        self.rows.truncate(count);
    }

    /// The text, no line of which is longer than `width`: holders are cut first, then keys, and
    /// where that is not enough the ends of the lines.
    pub(super) fn render(&self, width: Option<usize>) -> String {
        let widths = self.widths(width);
        let style = Style::of(&io::stdout());
        let cut = |line: String| line.chars().take(width.unwrap_or(usize::MAX)).collect::<String>();
        let head = cut(line(&HEAD.map(str::to_owned), &widths));
        let mut text = style.paint(Tone::Strong, &head) + "\n";
        for row in &self.rows {
            let _ = writeln!(text, "{}", cut(line(row, &widths)));
        }
        text
    }

    fn widths(&self, room: Option<usize>) -> [usize; COLUMNS] {
        let mut widths = HEAD.map(str::len);
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let all = widths.iter().sum::<usize>() + GAP.len() * (COLUMNS - 1);
        let mut excess = room.map_or(0, |room| all.saturating_sub(room));
        for column in [HOLDER, KEY] {
            let cut = excess.min(widths[column].saturating_sub(CUT_MIN));
            widths[column] -= cut;
            excess -= cut;
        }
        widths
    }
}

fn line(cells: &[String; COLUMNS], widths: &[usize; COLUMNS]) -> String {
    let cells: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| fit(cell, *width)).collect();
    cells.join(GAP).trim_end().to_owned()
}

fn fit(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return format!("{cell:width$}");
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure::{Fence, Holder, Key};

    use super::*;

    fn status(key: &str, holder: &str) -> Status {
        Status {
            key: Key::new(key).unwrap(),
            fence: Fence::new(7),
            ttl: Duration::from_secs(30),
            holder: Holder::new(holder).unwrap(),
            granted_at: SystemTime::UNIX_EPOCH,
            remaining: Duration::from_secs(18),
        }
    }

    fn render(leases: &[Status], width: Option<usize>) -> Vec<String> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(12);
        Table::new(leases, now).render(width).lines().map(str::to_owned).collect()
    }

    #[test]
    fn columns_stand_under_each_other() {
        let lines = render(&[status("a", "host/1 import"), status("order:42", "h/2")], None);
        assert_eq!(lines[0], "KEY       HOLDER         AGE   TTL LEFT  FENCE");
        assert_eq!(lines[1], "a         host/1 import  12 s  18 s      7");
        assert_eq!(lines[2], "order:42  h/2            12 s  18 s      7");
    }

    #[test]
    fn holders_are_cut_before_keys() {
        let leases = [status(&"k".repeat(20), &"ü".repeat(40))];
        for (room, key, holder) in [(60, 20, 15), (50, 17, 8), (41, 8, 8)] {
            let lines = render(&leases, Some(room));
            let ends = |c, count: usize| format!("{}…", String::from(c).repeat(count - 1));
            let key = if key == 20 { "k".repeat(20) } else { ends('k', key) };
            assert!(lines[1].starts_with(&format!("{key}  {}  12 s", ends('ü', holder))));
            assert!(lines.iter().all(|line| line.chars().count() <= room), "{lines:?}");
        }
        assert!(render(&leases, Some(20)).iter().all(|line| line.chars().count() == 20));
    }

    #[test]
    fn what_turns_text_is_left_out() {
        let lines = render(&[status("k", "a\u{202e}b\u{2028}c")], None);
        assert_eq!(lines[1], "k    abc     12 s  18 s      7");
    }
}

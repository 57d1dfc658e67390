//! Times and histograms as text.

use super::sample::{Bucket, Sample};

/// How wide a bar is at the most, and at the least.
const BAR: std::ops::RangeInclusive<usize> = 10..=60;

/// What stands before and after a bar.
const BESIDE: usize = 24;

/// What can be shown: how wide, and whether in block characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Canvas {
    pub(super) width: usize,
    pub(super) has_blocks: bool,
}

impl Canvas {
    /// A line with the figures.
    pub(super) fn figures(self, sample: &Sample) -> String {
        let time = |nanos| self.time(nanos);
        format!(
            "{}/s  p50 {}  p90 {}  p99 {}  max {}",
            grouped(sample.per_second()),
            time(sample.permille(500)),
            time(sample.permille(900)),
            time(sample.permille(990)),
            time(sample.max())
        )
    }

    /// A line for each bucket.
    pub(super) fn histogram(self, sample: &Sample) -> Vec<String> {
        let buckets = sample.buckets();
        let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1).max(1);
        let room = self.width.saturating_sub(BESIDE).clamp(*BAR.start(), *BAR.end());
        let all = sample.count().max(1) as f64;
        let line = |Bucket { to, count, .. }: &Bucket| {
            let bar = self.bar(*count, most, room);
            let share = *count as f64 * 100.0 / all;
            let line = format!("  < {:>8} {bar} {share:4.1} %", self.time(*to));
            line.chars().take(self.width.max(BESIDE)).collect()
        };
        buckets.iter().map(line).collect()
    }

    /// A bar of `room` characters, of which as many are full as `count` is of `most`; what is more
    /// than nothing is seen.
    fn bar(self, count: usize, most: usize, room: usize) -> String {
        const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let bar = if self.has_blocks {
            let eighths = (count * room * 8).div_ceil(most);
            "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
        } else {
            "#".repeat((count * room).div_ceil(most))
        };
        format!("{bar:<room$}")
    }

    /// A time in three figures: `812 ns`, `81.2 µs`, `1.05 ms`, `2.10 s`.
    pub(super) fn time(self, nanos: u64) -> String {
        let micro = if self.has_blocks { "µs" } else { "us" };
        let (unit, name) = match nanos {
            0..1_000 => return format!("{nanos} ns"),
            1_000..1_000_000 => (1e3, micro),
            1_000_000..1_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = nanos as f64 / unit;
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        format!("{value:.digits$} {name}")
    }
}

/// A number with its thousands apart.
fn grouped(number: f64) -> String {
    if number < 10.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PLAIN: Canvas = Canvas { width: 80, has_blocks: false };
    const BLOCKS: Canvas = Canvas { width: 80, has_blocks: true };

    #[test]
    fn times_have_three_figures() {
        for (nanos, text) in [
            (812, "812 ns"),
            (8_123, "8.12 us"),
            (81_234, "81.2 us"),
            (812_345, "812 us"),
            (1_050_000, "1.05 ms"),
            (2_100_000_000, "2.10 s"),
        ] {
            assert_eq!(PLAIN.time(nanos), text);
        }
        assert_eq!(BLOCKS.time(8_123), "8.12 µs");
    }

    #[test]
    fn thousands_are_apart() {
        let texts = [0.25, 99.6, 999.4, 1_000.0, 1_234_567.0].map(grouped);
        assert_eq!(texts, ["0.2", "100", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(PLAIN.bar(5, 10, 10), "#####     ");
        assert_eq!(PLAIN.bar(1, 1000, 10), "#         ");
        assert_eq!(PLAIN.bar(0, 10, 10), "          ");
        assert_eq!(BLOCKS.bar(10, 10, 4), "████");
        assert_eq!(BLOCKS.bar(3, 16, 4), "▊   ");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let times: Vec<u64> = (0..30).map(|n| 1 << n).collect();
        let sample = Sample::new(times, Duration::from_secs(1));
        for width in [40, 60, 80, 200] {
            for canvas in [Canvas { width, ..PLAIN }, Canvas { width, ..BLOCKS }] {
                let longest = canvas.histogram(&sample).iter().map(|l| l.chars().count()).max();
                assert!(longest <= Some(width), "{longest:?} of {width}");
            }
        }
        assert!(PLAIN.histogram(&sample).iter().all(|line| line.is_ascii()));
    }
}

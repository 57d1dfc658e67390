//! The table, printed row by row as it is measured, and the points of the charts.

use std::fmt;
use std::time::Duration;

use crate::figure::{Figure, Point, Source};

/// What was measured, as it is told and as a number.
#[derive(Debug, Default)]
pub(crate) struct Amount {
    pub(crate) text: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

impl Amount {
    pub(crate) fn new(text: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { text: text.into(), value, unit }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One figure.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) measured: Amount,
    pub(crate) reference: String,
    ratio: Option<Ratio>,
    pub(crate) target: String,
    verdict: Verdict,
    pub(crate) note: String,
}

/// Which ratio is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

#[derive(Clone, Copy, Debug)]
struct Ratio {
    value: f64,
    /// `None` where tenure is beside itself, and neither wins.
    better: Option<Better>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    None,
    Met,
    Missed,
    /// What it rests on was too unsteady to judge by.
    Unsure,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, measured: Amount) -> Self {
        Self { name: name.into(), measured, ..Self::default() }
    }

    /// What it is compared with, measured in the same run.
    pub(crate) fn beside(mut self, reference: impl Into<String>) -> Self {
        self.reference = reference.into();
        self
    }

    /// To what could be used instead. The worse one is a loss, and told as such.
    pub(crate) fn ratio(mut self, value: f64, better: Better) -> Self {
        self.ratio = Some(Ratio { value, better: Some(better) });
        self
    }

    /// To tenure itself, with more or less of something.
    pub(crate) fn ratio_to_itself(mut self, value: f64) -> Self {
        self.ratio = Some(Ratio { value, better: None });
        self
    }

    pub(crate) fn target(mut self, text: &str, met: bool) -> Self {
        self.target = text.to_owned();
        self.verdict = if met { Verdict::Met } else { Verdict::Missed };
        self
    }

    /// Takes the verdict back, if there is one: what it rests on cannot be trusted.
    pub(crate) fn unsure_if(mut self, unsure: bool) -> Self {
        if unsure {
            self.verdict = Verdict::Unsure;
        }
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    pub(crate) fn ratio_value(&self) -> Option<f64> {
        self.ratio.map(|ratio| ratio.value)
    }

    pub(crate) fn ratio_text(&self) -> String {
        self.ratio_value().map_or_else(String::new, |ratio| format!("{ratio:.2}"))
    }

    pub(crate) fn is_unsure(&self) -> bool {
        self.verdict == Verdict::Unsure
    }

    pub(crate) fn verdict_text(&self) -> &'static str {
        match self.verdict {
            Verdict::None => "",
            Verdict::Met => "ok",
            Verdict::Missed => "MISSED",
            Verdict::Unsure => "UNSURE",
        }
    }

    /// How many times worse than its reference it is, if it is, as the table shows it.
    pub(crate) fn loss(&self) -> Option<f64> {
        let Ratio { value, better } = self.ratio?;
        let shown = (value * 100.0).round() / 100.0;
        match better? {
            Better::Lower => (shown > 1.0).then_some(value),
            Better::Higher => (shown < 1.0).then_some(1.0 / value),
        }
    }
}

/// All rows so far, and the points of the charts.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    pub(crate) points: Vec<Point>,
}

impl Table {
    pub(crate) fn start() -> Self {
        line(["", "measured", "reference", "ratio", "target", ""], "");
        println!("{}", "-".repeat(120));
        Self::default()
    }

    pub(crate) fn add(&mut self, row: Row) {
        let (ratio, verdict) = (row.ratio_text(), row.verdict_text());
        let measured = &row.measured.text;
        line([&row.name, measured, &row.reference, &ratio, &row.target, verdict], &row.note);
        self.rows.push(row);
    }

    /// A point of a line: so much (`y`) at so many (`x`).
    pub(crate) fn plot(&mut self, figure: Figure, source: Source<'_>, x: f64, y: f64) {
        self.draw(Point::new(figure, source, x, y));
    }

    pub(crate) fn bar(&mut self, figure: Figure, source: Source<'_>, value: f64) {
        self.draw(Point::bar(figure, source, value));
    }

    pub(crate) fn draw(&mut self, point: Point) {
        self.points.push(point);
    }

    /// Prints the summary; whether no target was missed.
    pub(crate) fn end(&self, took: Duration) -> bool {
        println!("{}", "-".repeat(120));
        println!("ratios of rates are medians of pairs, measured in turns");
        println!("took {:.0} s", took.as_secs_f64());
        for name in self.with(Verdict::Missed) {
            println!("missed: {name}");
        }
        for name in self.with(Verdict::Unsure) {
            println!("unsure: {name} (repeat it on an idle machine)");
        }
        println!("{}", self.summary());
        self.with(Verdict::Missed).count() == 0
    }

    /// How many targets there are, and what became of them.
    pub(crate) fn summary(&self) -> String {
        let targets: Vec<&Row> = self.rows.iter().filter(|row| !row.target.is_empty()).collect();
        let with = |verdict| targets.iter().filter(|row| row.verdict == verdict).count();
        let (missed, unsure) = (with(Verdict::Missed), with(Verdict::Unsure));
        format!("{missed} of {} targets missed, {unsure} unsure", targets.len())
    }

    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &str> {
        self.rows.iter().filter(move |row| row.verdict == verdict).map(|row| row.name.as_str())
    }
}

fn line(cells: [&str; 6], note: &str) {
    let [name, measured, reference, ratio, target, verdict] = cells;
    let text = format!(
        "{name:<36} {measured:>14} {reference:>22} {ratio:>6}  {target:<12} {verdict:<6} {note}"
    );
    println!("{}", text.trim_end());
}

/// `1234567.8` as `1,234,568`.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn per_second(rate: f64) -> Amount {
    Amount::new(format!("{}/s", grouped(rate)), rate, "1/s")
}

pub(crate) fn bytes(bytes: f64) -> Amount {
    Amount::new(format!("{} B", grouped(bytes)), bytes, "B")
}

pub(crate) fn short(duration: Duration) -> Amount {
    let nanos = duration.as_secs_f64() * 1e9;
    let text = match nanos {
        n if n < 1e4 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    };
    Amount::new(text, duration.as_secs_f64(), "s")
}

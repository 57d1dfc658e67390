//! The table, printed row by row as it is measured.

use std::time::Duration;

/// One figure.
#[derive(Debug, Default)]
pub(crate) struct Row {
    name: String,
    measured: String,
    reference: String,
    ratio: String,
    target: String,
    verdict: Verdict,
    note: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    None,
    Met,
    Missed,
    /// The reference was too unsteady to judge by.
    Unsure,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, measured: impl Into<String>) -> Self {
        Self { name: name.into(), measured: measured.into(), ..Self::default() }
    }

    /// What it is compared with, measured in the same run.
    pub(crate) fn beside(mut self, reference: impl Into<String>) -> Self {
        self.reference = reference.into();
        self
    }

    pub(crate) fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = format!("{ratio:.2}");
        self
    }

    pub(crate) fn target(mut self, text: &str, met: bool) -> Self {
        self.target = text.to_owned();
        self.verdict = if met { Verdict::Met } else { Verdict::Missed };
        self
    }

    /// Takes the verdict back, because what it rests on cannot be trusted.
    pub(crate) fn unsure_if(mut self, unsure: bool) -> Self {
        if unsure && self.verdict != Verdict::None {
            self.verdict = Verdict::Unsure;
        }
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// All rows so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    targets: usize,
    missed: Vec<String>,
    unsure: Vec<String>,
}

impl Table {
    pub(crate) fn start() -> Self {
        line(["", "measured", "reference", "ratio", "target", ""], "");
        println!("{}", "-".repeat(120));
        Self::default()
    }

    pub(crate) fn add(&mut self, row: Row) {
        let verdict = match row.verdict {
            Verdict::None => "",
            Verdict::Met => "ok",
            Verdict::Missed => "MISSED",
            Verdict::Unsure => "UNSURE",
        };
        self.targets += usize::from(row.verdict != Verdict::None);
        line(
            [&row.name, &row.measured, &row.reference, &row.ratio, &row.target, verdict],
            &row.note,
        );
        match row.verdict {
            Verdict::Missed => self.missed.push(row.name),
            Verdict::Unsure => self.unsure.push(row.name),
            Verdict::None | Verdict::Met => {}
        }
    }

    /// Prints the summary; whether no target was missed.
    pub(crate) fn end(self, took: Duration) -> bool {
        println!("{}", "-".repeat(120));
        println!("ratios of rates are medians of pairs, measured in turns");
        println!("took {:.0} s", took.as_secs_f64());
        for name in &self.missed {
            println!("missed: {name}");
        }
        for name in &self.unsure {
            println!("unsure: {name} (its reference was unsteady: repeat it on an idle machine)");
        }
        let (missed, unsure) = (self.missed.len(), self.unsure.len());
        println!("{missed} of {} targets missed, {unsure} unsure", self.targets);
        missed == 0
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

pub(crate) fn per_second(rate: f64) -> String {
    format!("{}/s", grouped(rate))
}

pub(crate) fn short(duration: Duration) -> String {
    let nanos = duration.as_secs_f64() * 1e9;
    match nanos {
        n if n < 1e4 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

//! What `tenure verify` says at the end.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::store::StoreInfo;
use tenure_check::history::Answer;
use tenure_check::{Checker, History, Verdict};

use super::args::VerifyArgs;
use super::fleet::Deeds;
use crate::spans::{ms, span};
use crate::style::{Style, Tone};

/// How many of a checker's findings are spelled out.
const SHOWN: usize = 3;

/// All that there is to tell.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) args: &'a VerifyArgs,
    pub(super) store: &'a StoreInfo,
    pub(super) history: &'a History,
    pub(super) verdict: &'a Verdict,
    pub(super) deeds: Deeds,
    pub(super) torn: usize,
    /// Keys that are still held.
    pub(super) left: &'a [String],
    /// Where the history is, if it was kept.
    pub(super) kept: Option<&'a Path>,
}

/// How the claims were answered.
struct Counts {
    claims: usize,
    granted: usize,
    held: usize,
    failed: usize,
}

impl Report<'_> {
    /// The lines for people.
    pub(super) fn lines(&self, style: Style) -> Vec<String> {
        let args = self.args;
        let Counts { claims, granted, held, failed } = self.counts();
        let Deeds { started, kills, pauses } = self.deeds;
        let row = |name: &str, text: String| format!("{name:<9}{text}");
        let mut lines = vec![
            row("store", format!("{}, class {}", self.store.name, self.store.class.letter())),
            row(
                "workers",
                format!(
                    "{} at a time, {started} started; {} keys, ttl {}, for {}",
                    args.workers,
                    args.keys,
                    span(args.ttl),
                    span(args.length())
                ),
            ),
            row(
                "claims",
                format!("{claims}: {granted} granted, {held} found it held, {failed} failed"),
            ),
            row("faults", format!("{kills} kills, {pauses} pauses of {:?}", args.ttl * 3 / 2)),
        ];
        for checker in Checker::ALL {
            lines.extend(self.checker(checker, style));
        }
        lines.extend(self.notes().into_iter().map(|note| row("note", note)));
        lines.push(format!("verdict: {}", self.conclusion(style)));
        lines
    }

    fn checker(&self, checker: Checker, style: Style) -> Vec<String> {
        let count = self.verdict.of(checker).count();
        let name = checker.name();
        if count == 0 {
            let good = style.paint(Tone::Good, "ok");
            return vec![format!("{name:<9}{good}: {}", checker.promise())];
        }
        let bad = style.paint(Tone::Bad, "BROKEN");
        let times = if count == 1 { "once".into() } else { format!("{count} times") };
        let mut lines = vec![format!("{name:<9}{bad} {times}: not so that {}", checker.promise())];
        let start = self.history.claims.first().map_or(0, |claim| claim.asked);
        for found in self.verdict.of(checker).take(SHOWN) {
            let at = Duration::from_nanos(found.at.saturating_sub(start)).as_secs_f64();
            lines.push(format!("         {} at {at:.3} s: {}", found.key, found.text));
        }
        if count > SHOWN {
            lines.push(format!("         and {} more", count - SHOWN));
        }
        lines
    }

    /// What else is worth knowing.
    fn notes(&self) -> Vec<String> {
        let Verdict { stale_refused, stale_unfenced, undecided, .. } = self.verdict;
        let mut notes = vec![format!(
            "{} by workers that had lost the lock: {stale_refused} refused by the fence, \
             {stale_unfenced} taken by a counter without one",
            if *stale_refused + *stale_unfenced == 0 { "no writes" } else { "writes" }
        )];
        if !undecided.is_empty() {
            notes.push(format!("too much to order, so nothing is known: {}", undecided.join(", ")));
        }
        if self.torn > 0 {
            notes.push(format!("{} histories end within a line, by a kill", self.torn));
        }
        notes
    }

    fn conclusion(&self, style: Style) -> String {
        if self.verdict.is_good() {
            let operations = self.operations();
            let good = style.paint(Tone::Good, "excluded and fenced");
            let doubt = match self.verdict.undecided.len() {
                0 => String::new(),
                keys => format!(", but the order was not decided on {keys} of its keys"),
            };
            return format!("this store {good} in {operations} operations{doubt}");
        }
        let kept = self
            .kept
            .map_or(String::new(), |path| format!("; the history is in {}", path.display()));
        format!("{}: {}{kept}", style.paint(Tone::Bad, "BROKEN"), self.broken().join(", "))
    }

    /// The verdict in a word.
    fn word(&self) -> &'static str {
        match (self.verdict.is_good(), self.verdict.undecided.is_empty()) {
            (false, _) => "broken",
            (true, false) => "undecided",
            (true, true) => "good",
        }
    }

    /// The checkers that found something.
    fn broken(&self) -> Vec<&'static str> {
        let found = |checker: &Checker| self.verdict.of(*checker).next().is_some();
        Checker::ALL.into_iter().filter(found).map(Checker::name).collect()
    }

    /// Claims, and what was given back.
    fn operations(&self) -> usize {
        let returned = self.history.claims.iter().filter(|claim| claim.release.is_some()).count();
        self.history.claims.len() + returned
    }

    fn counts(&self) -> Counts {
        let count = |is: fn(&Answer) -> bool| {
            self.history.claims.iter().filter(|claim| is(&claim.answer)).count()
        };
        Counts {
            claims: self.history.claims.len(),
            granted: count(|answer| matches!(answer, Answer::Granted { .. })),
            held: count(|answer| matches!(answer, Answer::Held { .. })),
            failed: count(|answer| matches!(answer, Answer::Failed { .. })),
        }
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let Counts { claims, granted, held, failed } = self.counts();
        let Deeds { started, kills, pauses } = self.deeds;
        let checkers: serde_json::Map<String, Value> = Checker::ALL
            .into_iter()
            .map(|checker| (checker.name().to_owned(), self.verdict.of(checker).count().into()))
            .collect();
        json!({
            "verdict": self.word(),
            "broken": self.broken(),
            "store": self.store.name,
            "class": self.store.class.letter(),
            "duration_ms": ms(self.args.length()),
            "ttl_ms": ms(self.args.ttl),
            "workers": self.args.workers,
            "keys": self.args.keys,
            "operations": self.operations(),
            "claims": claims,
            "granted": granted,
            "held": held,
            "failed": failed,
            "started": started,
            "kills": kills,
            "pauses": pauses,
            "torn": self.torn,
            "checkers": checkers,
            "violations": self.verdict.violations,
            "forced": self.verdict.forced,
            "undecided": self.verdict.undecided,
            "stale_refused": self.verdict.stale_refused,
            "stale_unfenced": self.verdict.stale_unfenced,
            "left": self.left,
            "history": self.kept.map(|path| path.display().to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tenure::store::{Capabilities, Timing};
    use tenure_check::record::{Record, What};
    use tenure_check::{Options, check};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: VerifyArgs,
    }

    /// Worker 2 is granted the key at this time, with this fence; worker 1 has it from 10 to 100.
    fn history(at: u64, fence: u64) -> History {
        let record = |worker, at, what| Record { worker, claim: 1, key: "k0".into(), at, what };
        let asked = What::Asked { ttl: 1000, wait: Some(0) };
        History::new(vec![
            record(1, 5, asked.clone()),
            record(1, 10, What::Granted { fence: 7 }),
            record(1, 90, What::Believed),
            record(1, 95, What::ReleaseAsked),
            record(1, 100, What::Released),
            record(2, at - 2, asked),
            record(2, at, What::Granted { fence }),
            record(2, at + 10, What::Believed),
        ])
    }

    fn with_report<T>(history: &History, work: impl FnOnce(&Report<'_>) -> T) -> T {
        let verdict = check(history, &Options::default());
        let store = StoreInfo::new("file", Timing::Store, Capabilities::default(), Vec::new());
        let line = Line::try_parse_from(["verify", "--ttl", "1s"]).unwrap();
        let report = Report {
            args: &line.args,
            store: &store,
            history,
            verdict: &verdict,
            deeds: Deeds { started: 2, kills: 1, pauses: 0 },
            torn: 0,
            left: &[],
            kept: (!verdict.is_good()).then_some(Path::new("/kept")),
        };
        work(&report)
    }

    #[test]
    fn a_good_verdict_is_the_last_line() {
        with_report(&history(200, 8), |report| {
            let lines = report.lines(Style::of(&std::fs::File::open("/dev/null").unwrap()));
            assert_eq!(lines[0], "store    file, class F");
            assert_eq!(lines[2], "claims   2: 2 granted, 0 found it held, 0 failed");
            let good = lines.iter().filter(|line| line.contains(" ok: ")).count();
            assert_eq!(good, Checker::ALL.len(), "{lines:?}");
            let last = "verdict: this store excluded and fenced in 3 operations";
            assert_eq!(lines.last().unwrap(), last);
            assert_eq!(report.json()["verdict"], "good");
        });
    }

    #[test]
    fn a_bad_one_names_the_checkers_and_spells_out_what_they_found() {
        with_report(&history(50, 6), |report| {
            let lines = report.lines(Style::of(&std::fs::File::open("/dev/null").unwrap()));
            let all = lines.join("\n");
            assert!(all.contains("fences   BROKEN once: "), "{all}");
            assert!(all.contains(" k0 at 0.000 s: fence 6 was granted to worker 2"), "{all}");
            let last = "verdict: BROKEN: fences, beliefs, linear; the history is in /kept";
            assert_eq!(lines.last().unwrap(), last);
            let json = report.json();
            assert_eq!(json["broken"], json!(["fences", "beliefs", "linear"]));
            assert_eq!(json["checkers"]["fences"], 1);
            assert_eq!(json["history"], "/kept");
        });
    }
}

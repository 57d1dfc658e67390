//! What `tenure verify` says at the end.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::store::{Class, StoreInfo};
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
            row("store", format!("{}, class {}", self.store.name, class(self.store.class))),
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
        if !self.left.is_empty() {
            notes.push(format!("still held in the scratch namespace: {}", self.left.join(", ")));
        }
        notes
    }

    fn conclusion(&self, style: Style) -> String {
        if self.verdict.is_good() {
            let operations = self.operations();
            let good = style.paint(Tone::Good, "excluded and fenced");
            return format!("this store {good} in {operations} operations");
        }
        let kept = self
            .kept
            .map_or(String::new(), |path| format!("; the history is in {}", path.display()));
        format!("{}: {}{kept}", style.paint(Tone::Bad, "BROKEN"), self.broken().join(", "))
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
            "verdict": if self.verdict.is_good() { "good" } else { "broken" },
            "broken": self.broken(),
            "store": self.store.name,
            "class": class(self.store.class),
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

pub(super) const fn class(class: Class) -> &'static str {
    match class {
        Class::Fenced => "F",
        Class::Efficiency => "E",
    }
}

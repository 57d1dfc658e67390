//! Set-ups that must fail: a harness that finds nothing wrong with them finds nothing.

use std::time::Duration;

use anyhow::Result;
use tenure::store::Class;

use crate::fault::Kind;
use crate::job::Style;
use crate::report::letter;
use crate::run::{Order, Outcome, run};
use crate::subject::{REPLICATED, RUSHED, Subject, VOLATILE};

/// How long fail-overs have to be tried out: each loses a few grants, and few of those are missed.
const REPLICATED_MIN: Duration = Duration::from_secs(40);

/// How long a clock that is fast has to be tried out: only who is stopped for the right time loses
/// a lease to it.
const RUSHED_MIN: Duration = Duration::from_secs(40);

/// What became of one.
#[derive(Debug)]
pub(crate) struct Control {
    why: &'static str,
    /// The checker that has to find it out.
    finder: &'static str,
    /// Whether the store has to say itself that it is of class E.
    confesses: bool,
    pub(crate) outcome: Outcome,
}

impl Control {
    /// Whether it failed as it must and in no other way: it was found out, and had said so itself
    /// where it can know.
    pub(crate) fn is_good(&self) -> bool {
        let confessed = self.outcome.class == Class::Efficiency || !self.confesses;
        let judgement = &self.outcome.judgement;
        let found = judgement.broken().iter().any(|(name, _)| *name == self.finder);
        confessed && found && judgement.panicked.is_empty()
    }

    /// One sentence about it.
    pub(crate) fn text(&self) -> String {
        let Outcome { class, version, judgement, .. } = &self.outcome;
        let found = judgement.broken();
        let found: Vec<String> = found.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let Self { why, finder, .. } = self;
        let how = match self.is_good() {
            true => "failed as it must, by",
            false => "FAILED (it must say so, be found out, and not panic), by",
        };
        format!(
            "{version}, {why}, says class {} and {how} {finder}: {}",
            letter(*class),
            if found.is_empty() { "nothing found".to_owned() } else { found.join(", ") }
        )
    }
}

/// Tries all of them out.
pub(crate) async fn controls(length: Duration, seed: u64) -> Result<Vec<Control>> {
    let kills = vec![Kind::ServerKill, Kind::WorkerKill, Kind::WorkerPause];
    let order = |subject: Subject, kinds| Order { kinds, ..Order::new(subject, length, seed) };
    let replicated = order(REPLICATED, vec![Kind::ServerKill]);
    let replicated = Order { length: length.max(REPLICATED_MIN), ..replicated };
    let volatile = order(VOLATILE, kills);
    let rushed = order(RUSHED, vec![Kind::WorkerPause]);
    let rushed = Order { style: Style::Long, length: length.max(RUSHED_MIN), ..rushed };
    let control = async |why, finder, confesses, order| {
        anyhow::Ok(Control { why, finder, confesses, outcome: run(order).await? })
    };
    let forgets = "which keeps nothing, killed and started again";
    let follows = "whose replica takes its place and has not heard of the last second";
    let races = "whose clock runs 20 % fast";
    Ok(vec![
        control(forgets, "beliefs", true, volatile).await?,
        control(follows, "beliefs", true, replicated).await?,
        control(races, "linear", false, rushed).await?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_must_be_found_out_by_what_is_named() {
        let outcome = Outcome::sample(Order::new(VOLATILE, Duration::ZERO, 7));
        let mut control = Control { why: "", finder: "undone", confesses: true, outcome };
        assert!(!control.is_good());
        control.outcome.judgement.kept = vec!["x".to_owned()];
        assert!(!control.is_good());
        control.outcome.judgement.undone = Some(vec!["x".to_owned()]);
        assert!(control.is_good());
        control.outcome.judgement.panicked = vec!["x".to_owned()];
        assert!(!control.is_good());
        control.outcome.judgement.panicked.clear();
        control.outcome.class = Class::Fenced;
        assert!(!control.is_good());
    }
}

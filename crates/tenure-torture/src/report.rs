//! What is printed about a run.

use std::collections::BTreeMap;

use tenure::store::Class;

use crate::fault::Kind;
use crate::judge::Judgement;
use crate::run::Outcome;

/// How many findings are spelled out.
const SHOWN: usize = 8;

/// The letter of a class.
pub(crate) const fn letter(class: Class) -> &'static str {
    match class {
        Class::Fenced => "F",
        Class::Efficiency => "E",
    }
}

/// How often each kind of fault was carried out.
pub(crate) fn faults(outcome: &Outcome) -> BTreeMap<Kind, usize> {
    let mut counts = BTreeMap::new();
    for struck in &outcome.struck {
        *counts.entry(struck.kind).or_default() += 1;
    }
    counts
}

/// What makes a run a failure, one line for each. A store that is of class E, as it must be, may
/// break what it does not promise.
pub(crate) fn failures(outcome: &Outcome) -> Vec<String> {
    let expected = outcome.order.subject.class;
    let mut failures = Vec::new();
    if outcome.class != expected {
        let (found, expected) = (letter(outcome.class), letter(expected));
        failures.push(format!("it is of class {found}, and must be of class {expected}"));
    }
    if outcome.judgement.tally.granted() == 0 {
        failures.push("nothing was granted, so that nothing was tried out".to_owned());
    }
    let broken: usize = outcome.judgement.broken().iter().map(|(_, count)| count).sum();
    if broken > 0 && expected == Class::Fenced {
        failures.push(format!("{broken} violations"));
    }
    let panics = outcome.judgement.panicked.len();
    if panics > 0 {
        failures.push(format!("{panics} panics of the server"));
    }
    if let Some(demand) = outcome.order.demand {
        failures.extend(demand.missed(outcome.judgement.reached));
    }
    failures
}

/// What became of the counter that does not check the fence.
pub(crate) fn control(outcome: &Outcome) -> String {
    match outcome.judgement.verdict.stale_unfenced {
        0 => "not exercised: no pause hit a holder that wrote afterwards".to_owned(),
        count => format!(
            "failed as it must: it took {count} stale writes, {} of them from workers that had \
             been stopped and whose lease nobody had ended by force",
            outcome.judgement.reached.stale
        ),
    }
}

/// The lines about a run.
pub(crate) fn lines(outcome: &Outcome) -> Vec<String> {
    let judgement = &outcome.judgement;
    let found = &judgement.verdict;
    let name = outcome.order.subject.name;
    let mut lines = vec![format!(
        "{name}: {}, class {}; {} operations answered, {} faults, {} workers started; {:.0} s, \
         judged in {:.1} s",
        outcome.version,
        letter(outcome.class),
        judgement.tally.operations(),
        outcome.struck.len(),
        outcome.started,
        outcome.took.as_secs_f64(),
        outcome.judged_in.as_secs_f64(),
    )];
    let list = |rows: Vec<String>| rows.join(", ");
    let kinds = faults(outcome).into_iter().map(|(kind, count)| format!("{kind:?} {count}"));
    lines.push(format!("  faults: {}", list(kinds.collect())));
    let row = |(name, count)| format!("{name} {count}");
    let (answered, others) = (judgement.tally.answered(), judgement.tally.others());
    lines.push(format!("  operations: {}", list(answered.map(row).collect())));
    lines.push(format!("  beside these: {}", list(others.map(row).collect())));
    let excused = judgement.excused.percent();
    let quiet = judgement.reached.quiet.unwrap_or(0);
    lines.push(format!(
        "  excused: {excused} % of the time of all workers; {quiet} operations in the rest"
    ));
    lines.push(format!(
        "  stale writes refused by the fence: {}; the counter without one {}",
        found.stale_refused,
        control(outcome)
    ));
    if judgement.torn > 0 {
        lines.push(format!("  {} histories end within a line, by a kill", judgement.torn));
    }
    if !found.forced.is_empty() || !found.undecided.is_empty() {
        let (forced, undecided) = (found.forced.len(), found.undecided.join(", "));
        lines.push(format!("  by force: {forced} overlaps; order not decided: [{undecided}]"));
    }
    lines.extend(failures(outcome).into_iter().map(|text| format!("  FAILED: {text}")));
    lines.extend(verdict(judgement));
    lines
}

/// The lines about what was found.
pub(crate) fn verdict(judgement: &Judgement) -> Vec<String> {
    let broken = judgement.broken();
    if broken.is_empty() {
        return vec!["  verdict: no violation".to_owned()];
    }
    let counts: Vec<_> = broken.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let mut lines = vec![format!("  verdict: VIOLATIONS: {}", counts.join(", "))];
    let texts = judgement.texts();
    lines.extend(texts.iter().take(SHOWN).map(|text| format!("    {text}")));
    if texts.len() > SHOWN {
        lines.push(format!("    and {} more", texts.len() - SHOWN));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::demand::Demand;
    use crate::run::Order;
    use crate::subject;
    use crate::tally::Tally;

    fn failed(name: &str, class: Class, violations: usize, demand: Option<Demand>) -> Vec<String> {
        let subject = subject::named(name).unwrap();
        let order = Order { demand, ..Order::new(subject, Duration::from_secs(9), 7) };
        let mut outcome = Outcome::sample(order);
        outcome.class = class;
        outcome.judgement.kept = vec!["x".to_owned(); violations];
        outcome.judgement.tally = Tally::of_grants(1);
        failures(&outcome)
    }

    #[test]
    fn a_store_must_be_of_the_class_that_is_expected() {
        assert_eq!(failed("redis", Class::Fenced, 0, None), [""; 0]);
        let told = ["it is of class E, and must be of class F"];
        assert_eq!(failed("redis", Class::Efficiency, 0, None), told);
        assert_eq!(failed("redis", Class::Fenced, 2, None), ["2 violations"]);
        assert_eq!(failed("redis", Class::Efficiency, 2, None).len(), 2);
        assert_eq!(failed("redis/volatile", Class::Efficiency, 2, None), [""; 0]);
    }

    #[test]
    fn a_run_in_which_nothing_was_granted_proves_nothing() {
        let subject = subject::named("redis").unwrap();
        let outcome = Outcome::sample(Order::new(subject, Duration::from_secs(9), 7));
        assert_eq!(failures(&outcome), ["nothing was granted, so that nothing was tried out"]);
    }

    #[test]
    fn a_card_must_have_its_figures() {
        let missed = failed("redis", Class::Fenced, 0, Some(Demand::CARD));
        assert_eq!(missed.len(), 3, "{missed:?}");
    }
}

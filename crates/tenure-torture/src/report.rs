//! What is printed about a run.

use std::collections::BTreeMap;

use tenure::store::Class;

use crate::fault::Kind;
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

/// Whether nothing was found, or nothing but what the store says itself may happen to it.
pub(crate) fn is_good(outcome: &Outcome) -> bool {
    outcome.judgement.broken().is_empty() || outcome.class == Class::Efficiency
}

/// What became of the counter that does not check the fence.
pub(crate) fn control(outcome: &Outcome) -> String {
    match outcome.judgement.verdict.stale_unfenced {
        0 => "not exercised: no pause hit a holder that wrote afterwards".to_owned(),
        count => format!("failed as it must: it took {count} stale writes"),
    }
}

/// The lines about a run.
pub(crate) fn lines(outcome: &Outcome) -> Vec<String> {
    let judgement = &outcome.judgement;
    let verdict = &judgement.verdict;
    let name = outcome.order.subject.name;
    let mut lines = vec![format!(
        "{name}: {}, class {}; {} operations, {} faults, {} workers started; {:.0} s, judged in \
         {:.1} s",
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
    let rows = judgement.tally.rows().map(|(name, count)| format!("{name} {count}"));
    lines.push(format!("  operations: {}", list(rows.collect())));
    lines.push(format!(
        "  stale writes refused by the fence: {}; the counter without one {}",
        verdict.stale_refused,
        control(outcome)
    ));
    if judgement.torn > 0 {
        lines.push(format!("  {} histories end within a line, by a kill", judgement.torn));
    }
    if !verdict.forced.is_empty() || !verdict.undecided.is_empty() {
        let (forced, undecided) = (verdict.forced.len(), verdict.undecided.join(", "));
        lines.push(format!("  by force: {forced} overlaps; order not decided: [{undecided}]"));
    }
    let broken = judgement.broken();
    if broken.is_empty() {
        lines.push("  verdict: no violation".to_owned());
        return lines;
    }
    let counts = broken.iter().map(|(name, count)| format!("{name} {count}"));
    lines.push(format!("  verdict: VIOLATIONS: {}", list(counts.collect())));
    let texts = judgement.texts();
    lines.extend(texts.iter().take(SHOWN).map(|text| format!("    {text}")));
    if texts.len() > SHOWN {
        lines.push(format!("    and {} more", texts.len() - SHOWN));
    }
    lines
}

//! The simulation finds every planted bug, and soon: one that finds none proves nothing.

use tenure_testkit::sim::{Mutant, Plan, simulate};

const SEEDS: u64 = 2_000;

/// The first seed that finds the bug, and what it finds.
fn found(mutant: Mutant) -> Option<(u64, String)> {
    let plan = Plan { mutant: Some(mutant), ..Plan::default() };
    (0..SEEDS).find_map(|seed| {
        let violation = simulate(seed, &plan).violations.into_iter().next()?;
        Some((seed, violation))
    })
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    println!("{:<28} {:>5}  violation", "mutant", "seed");
    for mutant in Mutant::ALL {
        match found(*mutant) {
            Some((seed, violation)) => {
                println!("{:<28} {seed:>5}  {violation}", format!("{mutant:?}"));
            }
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}

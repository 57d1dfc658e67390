//! The engine as it ships, under thousands of seeded runs in which everything goes wrong.
//!
//! `SEEDS` and `BASE` choose how many seeds and from where; `SEED=n` replays one with its trace.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_testkit::sim::{Counters, Plan, simulate};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What came of all seeds.
#[derive(Default)]
struct Sum {
    counters: Counters,
    steps: u64,
    bad: Vec<(u64, Vec<String>)>,
}

fn run(base: u64, seeds: u64) -> Sum {
    let next = AtomicU64::new(base);
    let sum = Mutex::new(Sum::default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut mine = Sum::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= base + seeds {
                        break;
                    }
                    let report = simulate(seed, &Plan::default());
                    mine.counters.merge(&report.counters);
                    mine.steps += report.steps;
                    if !report.violations.is_empty() {
                        mine.bad.push((seed, report.violations));
                    }
                }
                let mut sum = sum.lock().unwrap();
                sum.counters.merge(&mine.counters);
                sum.steps += mine.steps;
                sum.bad.append(&mut mine.bad);
            });
        }
    });
    let mut sum = sum.into_inner().unwrap();
    sum.bad.sort();
    sum
}

fn replay(seed: u64) {
    let report = simulate(seed, &Plan { trace: true, ..Plan::default() });
    for line in &report.trace {
        println!("{line}");
    }
    println!("seed {seed}: {} steps, trace hash {:016x}", report.steps, report.trace_hash);
    assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
}

#[test]
fn nothing_that_goes_wrong_breaks_a_promise() {
    if let Some(seed) = number("SEED") {
        return replay(seed);
    }
    let (base, seeds) = (number("BASE").unwrap_or(0), number("SEEDS").unwrap_or(20_000));
    let began = std::time::Instant::now();
    let sum = run(base, seeds);
    let took = began.elapsed().max(Duration::from_millis(1)).as_secs_f64();
    println!("{}", sum.counters);
    println!("{seeds} seeds, {} steps in {took:.1} s", sum.steps);
    println!("{:.0} seeds/s, {:.0} steps/s", seeds as f64 / took, sum.steps as f64 / took);
    for (seed, violations) in sum.bad.iter().take(10) {
        println!("seed {seed}:");
        for violation in violations {
            println!("    {violation}");
        }
        println!(
            "    replay: SEED={seed} cargo test -p tenure-testkit --test simulation nothing \
             -- --nocapture"
        );
    }
    assert!(sum.bad.is_empty(), "{} of {seeds} seeds broke a promise", sum.bad.len());
    assert!(seeds < 1000 || sum.counters.never().is_empty(), "never: {:?}", sum.counters.never());
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..20 {
        let [one, two] = [(); 2].map(|()| simulate(seed, &Plan::default()));
        assert_eq!((one.steps, one.trace_hash), (two.steps, two.trace_hash), "seed {seed}");
        assert_eq!(one.counters, two.counters, "seed {seed}");
        assert_ne!(one.trace_hash, simulate(seed + 1, &Plan::default()).trace_hash);
    }
}

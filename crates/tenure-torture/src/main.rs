//! `torture`: real stores under real faults, and a verdict on what was seen.
//!
//! ```text
//!              ┌─ nemesis (a plan, from the seed) ─▶ arena ─▶ server, network, workers
//! args ─▶ run ─┤
//!              └─ fleet ─▶ workers (processes) ─▶ proxies ─▶ the server
//!                            │ histories, deeds            └─ sink (a process)
//!                            ▼
//!                   merge ─▶ judge (tenure-check) ─▶ report, card
//! ```
//!
//! The roles of the other processes are this program again, under names that no person types.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command")]

mod answered;
mod arena;
mod args;
mod card;
mod case;
mod clockwork;
mod control;
mod deed;
mod demand;
mod dice;
mod disk;
mod excused;
mod fault;
mod fleet;
mod force;
mod hunt;
mod job;
mod journal;
mod judge;
mod kept;
mod log;
mod looks;
mod merge;
mod nemesis;
mod outages;
mod panicked;
mod planted;
mod questions;
mod replicated;
mod report;
mod run;
mod said;
mod same;
mod setting;
mod shelf;
mod shipped;
mod sink;
mod skew;
mod standing;
mod subject;
mod tally;
mod tether;
mod tries;
mod turn;
mod undone;
mod witness;
mod woken;
mod words;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use args::Args;
use case::Case;
use clap::Parser;
use demand::Demand;
use run::Order;
use shelf::Shelf;
use subject::Subject;
use tenure::clock::{Clock, SystemClock};
use tokio::runtime::Builder;

/// A run of this length has to come to something.
const LONG: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    tenure_testkit::role::run_if_asked();
    if let Some(exit) = worker::part().or_else(sink::part) {
        return exit;
    }
    let args = Args::parse();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(torture(&args)));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torture: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn torture(args: &Args) -> Result<bool> {
    if let Some(folder) = &args.judge {
        return judge_again(folder);
    }
    let seed = args.seed.unwrap_or_else(|| SystemClock.now().as_nanos() % 1_000_000);
    println!("seed {seed}");
    disk::settle()?;
    let shelf = args.cards.then(Shelf::open).transpose()?;
    let shelf = shelf.as_ref();
    if args.control {
        return control_run(args, seed, shelf).await;
    }
    if let Some(filter) = &args.planted {
        return hunt(args, filter, seed, shelf).await;
    }
    let mut good = true;
    for subject in args.subjects(seed)? {
        good &= or_told(subject.name, try_out(args, subject, seed, shelf).await);
    }
    // Whoever makes all cards makes them whole.
    if args.cards && args.store.is_empty() && args.stores.is_none() {
        good &= or_told("controls", control_run(args, seed, shelf).await);
        good &= or_told("planted bugs", hunt(args, "", seed, shelf).await);
    }
    Ok(good)
}

/// What came of one part. One that could not be carried out has failed, and the others go on.
fn or_told(part: &str, outcome: Result<bool>) -> bool {
    outcome.unwrap_or_else(|error| {
        eprintln!("torture: {part}: FAILED: {error:#}");
        false
    })
}

/// What came of what a page tells of. Where that is nothing, it is taken away: what was told before
/// is no longer so.
fn or_cleared<T>(shelf: Option<&Shelf>, page: &str, outcome: Result<T>) -> Result<T> {
    if let (Err(_), Some(shelf)) = (&outcome, shelf) {
        shelf.clear(page)?;
    }
    outcome
}

async fn try_out(args: &Args, subject: Subject, seed: u64, shelf: Option<&Shelf>) -> Result<bool> {
    println!("{}: for {} s", subject.name, args.length().as_secs());
    let order = Order::new(subject, args.length(), seed);
    let is_long = args.length() >= LONG;
    let demand = args.cards.then_some(Demand::CARD).or(is_long.then_some(Demand::LEAST));
    let order = Order { workers: args.workers, tasks: args.tasks, demand, ..order };
    let outcome = or_cleared(shelf, &shelf::card(&subject), run::run(order).await)?;
    for line in report::lines(&outcome) {
        println!("{line}");
    }
    if let Some(shelf) = shelf {
        shelf.put(&outcome)?;
    }
    let good = report::failures(&outcome).is_empty();
    if good && !args.keep {
        std::fs::remove_dir_all(&outcome.folder)?;
    } else {
        println!("  history: {}", outcome.folder.display());
        println!("  again: {}", card::command(&outcome).replace(" --cards", ""));
    }
    Ok(good)
}

/// Judges a history that was kept.
fn judge_again(folder: &Path) -> Result<bool> {
    let case = Case::load(folder)?;
    let judgement = judge::judge(&case, folder)?;
    println!("{}: {} operations answered", case.store, judgement.tally.operations());
    for line in report::verdict(&judgement) {
        println!("{line}");
    }
    Ok(judgement.broken().is_empty())
}

async fn control_run(args: &Args, seed: u64, shelf: Option<&Shelf>) -> Result<bool> {
    let controls = control::controls(args.control_length(), seed).await;
    let controls = or_cleared(shelf, shelf::CONTROLS, controls)?;
    if let Some(shelf) = shelf {
        let more = format!("--control --seconds {} --seed {seed}", args.control_length().as_secs());
        shelf.put_controls(&controls, &more)?;
    }
    for control in &controls {
        println!("control: {}", control.text());
        if args.keep || !control.is_good() {
            println!("  history: {}", control.outcome.folder.display());
        } else {
            std::fs::remove_dir_all(&control.outcome.folder)?;
        }
    }
    Ok(controls.iter().all(control::Control::is_good))
}

async fn hunt(args: &Args, filter: &str, seed: u64, shelf: Option<&Shelf>) -> Result<bool> {
    ensure!(args.store.len() <= 1, "--planted is for one store, or for each bug's own");
    let length = args.control_length();
    let store = if args.store.is_empty() { None } else { args.subjects(seed)?.first().copied() };
    // The page tells of all bugs, each on its own store, or it stays as it is.
    let shelf = shelf.filter(|_| filter.is_empty() && store.is_none());
    let hunts = hunt::hunt(filter, store, length, seed, args.keep).await;
    let hunts = or_cleared(shelf, shelf::PLANTED, hunts)?;
    if let Some(shelf) = shelf {
        let more = format!("--planted --seconds {} --seed {seed}", length.as_secs());
        shelf.put_hunts(&hunts, &more)?;
    }
    Ok(hunts.iter().all(hunt::Hunt::is_good))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_could_not_be_carried_out_has_failed() {
        assert!(or_told("x", Ok(true)));
        assert!(!or_told("x", Ok(false)));
        assert!(!or_told("x", Err(anyhow::anyhow!("no server"))));
    }
}

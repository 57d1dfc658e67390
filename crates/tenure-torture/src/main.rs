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

mod arena;
mod args;
mod clockwork;
mod deed;
mod dice;
mod fault;
mod fleet;
mod job;
mod journal;
mod judge;
mod kept;
mod log;
mod merge;
mod nemesis;
mod planted;
mod report;
mod run;
mod sink;
mod subject;
mod tally;
mod tether;
mod turn;
mod witness;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use args::Args;
use clap::Parser;
use run::Order;
use tenure::clock::{Clock, SystemClock};
use tokio::runtime::Builder;

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
    let seed = args.seed.unwrap_or_else(|| SystemClock.now().as_nanos() % 1_000_000);
    println!("seed {seed}");
    let mut good = true;
    for subject in args.subjects(seed)? {
        let order = Order::new(subject, args.length(), seed);
        let order = Order { workers: args.workers, tasks: args.tasks, ..order };
        let outcome = run::run(order).await?;
        for line in report::lines(&outcome) {
            println!("{line}");
        }
        good &= report::is_good(&outcome);
        if args.keep || !report::is_good(&outcome) {
            println!("  history: {}", outcome.folder.display());
        } else {
            std::fs::remove_dir_all(&outcome.folder)?;
        }
    }
    Ok(good)
}

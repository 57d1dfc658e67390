//! `tenure elect`: a command that runs on one machine at a time, while that one leads.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use tenure::{Guard, Key, Locks};

use super::run::held::{Ended, Job, OnLost};
use super::run::note::note;
use super::run::settle::settle;
use crate::cli::{OutputArgs, StoreArgs, key};
use crate::duration::parse_ttl;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::open::{self, Terms};
use crate::say;
use crate::signals::Signals;
use crate::waiting::{acquire_at_last, say_holding};

const EXAMPLES: &str = "\
Examples:
  One of three machines runs the scheduler; when it dies, another takes over within the ttl.
    tenure elect scheduler --ttl 15s --store etcd://10.0.0.5:2379 -- ./scheduler

  Who leads?
    tenure status scheduler --store etcd://10.0.0.5:2379

How it goes:
  It waits to be elected, which is to hold the lock NAME, and runs the command. When the leadership
  is lost, the command is stopped before another can be elected, and it stands for election again.
  When the command ends by itself, so does tenure, with its exit code, and another is elected.
  A store that fails, once it was open, is asked again for as long as it takes, and this is said.
  Environment and signals are those of 'tenure run'.

Exit codes:
  Those of 'tenure run', but never 75, because it waits. 76: the lock was taken away just when the
  command ended, or something of the command could not be stopped.";

/// After how long on end a store that fails is said to.
const OUTAGE_TOLD: Duration = Duration::from_secs(5);

/// Run a command while this machine is the leader
///
/// Any number of machines call this with the same name; one of them runs the command at a time.
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = EXAMPLES)]
pub(crate) struct ElectArgs {
    /// The name of the office
    #[arg(value_parser = key)]
    name: Key,

    /// How soon another takes over from a leader that is gone
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, default_value = "30s")]
    ttl: Duration,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// The command to run and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command whenever this process leads, until it ends by itself or a signal ends it.
pub(crate) async fn elect(args: &ElectArgs) -> Result<Exit, Failure> {
    let work = async |locks: &Locks, signals: &mut Signals| stand(locks, args, signals).await;
    let terms = Terms { ttl: args.ttl, outage_max: OUTAGE_TOLD };
    open::using(&args.store, args.output.verbose, terms, work).await
}

async fn stand(locks: &Locks, args: &ElectArgs, signals: &mut Signals) -> Result<Exit, Failure> {
    loop {
        let request = locks.lock(args.name.as_str()).ttl(args.ttl);
        let request = match note(&args.command) {
            Some(note) => request.holder(&note),
            None => request,
        };
        let elected = acquire_at_last(locks, &args.name, request, &args.output, signals);
        let guard = match elected.await? {
            Ok(guard) => guard,
            Err(signal) => return Ok(Exit::of_signal(signal)),
        };
        if let Some(ended) = lead(locks, args, guard, signals).await? {
            return Ok(ended);
        }
    }
}

/// One term of office; `None` when it was lost.
async fn lead(
    locks: &Locks,
    args: &ElectArgs,
    guard: Guard,
    signals: &mut Signals,
) -> Result<Option<Exit>, Failure> {
    if !args.output.quiet {
        say_holding(&guard);
    }
    let job = Job { command: &args.command, term: args.ttl, on_lost: OnLost::Term };
    let ended = job.run(&guard, signals).await;
    let is_lost = matches!(ended, Ok(Ended::Lost(_) | Ended::NotBegun(_)));
    match settle(locks, guard, ended, None).await {
        Err(failure) if is_lost => {
            say::error(&failure);
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

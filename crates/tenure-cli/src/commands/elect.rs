//! `tenure elect`: a command that runs on one machine at a time, while that one leads.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use tenure::{Guard, Key, Locks};

use super::run::held::{Ended, Job, OnLost, give_back, let_go};
use super::run::note::note;
use crate::cli::{OutputArgs, StoreArgs, key};
use crate::duration::parse_ttl;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::waiting::{acquire, say_holding};
use crate::{open, say};

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
  Environment and signals are those of 'tenure run'.

Exit codes:
  Those of 'tenure run', but never 75, because it waits. 76: the lock was taken away just when the
  command ended, or something of the command could not be stopped.";

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
    open::using(&args.store, args.output.verbose, args.ttl, work).await
}

async fn stand(locks: &Locks, args: &ElectArgs, signals: &mut Signals) -> Result<Exit, Failure> {
    loop {
        let request = locks.lock(args.name.as_str()).ttl(args.ttl);
        let request = match note(&args.command) {
            Some(note) => request.holder(&note),
            None => request,
        };
        let guard = match acquire(locks, &args.name, request, &args.output, signals).await? {
            Ok(guard) => guard,
            Err(signal) => return Ok(Exit::of_signal(signal)),
        };
        if let Some(ended) = lead(args, guard, signals).await? {
            return Ok(ended);
        }
    }
}

/// One term of office; `None` when it was lost.
async fn lead(
    args: &ElectArgs,
    guard: Guard,
    signals: &mut Signals,
) -> Result<Option<Exit>, Failure> {
    if !args.output.quiet {
        say_holding(&guard);
    }
    let job = Job { command: &args.command, term: args.ttl, on_lost: OnLost::Term };
    match job.run(&guard, signals).await {
        Ok(Ended::Itself(exit)) => give_back(guard).await.map(|()| Some(exit)),
        Ok(Ended::Lost(failure)) => {
            let_go(guard).await;
            say::error(&failure);
            Ok(None)
        }
        Ok(Ended::Remains(failure)) => {
            let _ = guard.detach();
            Err(failure)
        }
        Err(failure) => {
            let_go(guard).await;
            Err(failure)
        }
    }
}

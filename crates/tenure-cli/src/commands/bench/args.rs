//! What `tenure bench` can be told.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::{OutputArgs, PlaceArgs};
use crate::exit::{self, Exit};

const EXAMPLES: &str = "\
Examples:
  How fast are locks on this Redis, from here?
    TENURE_STORE=redis://10.0.0.5 tenure bench

What is measured:
  round trip  looking at one free key: what any answer of this store takes from here
  cycle       acquire and release, one after the other
  hand-off    two connections pass one key: from the call that releases it to the other's grant
  contention  eight tasks of this process on one key: acquire and release
  spread      thirty-two tasks of this process, each on a key of its own: acquire and release
  Beside each stands its median in round trips: the times are those of this machine and this
  network, the ratio is what the lock costs on top.";

const CODES: [(Exit, &str); 1] = [(Exit::SUCCESS, "all was measured")];

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// Acquire and release, one after the other
    Cycle,
    /// One key between two connections
    Handoff,
    /// Many tasks, on one key and on many
    Contention,
}

/// Measure how fast a store is
///
/// All keys are in a namespace of a random name, which nobody else uses.
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct BenchArgs {
    /// For how many seconds each is measured
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,

    /// Measure nothing else
    #[arg(long, value_name = "WHAT", value_enum)]
    only: Option<Only>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl BenchArgs {
    /// For how long each is measured.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Whether this is to be measured.
    pub(crate) fn wants(&self, what: Only) -> bool {
        self.only.is_none_or(|only| only == what)
    }
}

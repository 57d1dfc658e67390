//! What `tenure verify` can be told.

use std::time::Duration;

use clap::Args;

use crate::cli::{OutputArgs, PlaceArgs};
use crate::duration::{parse_some, parse_ttl};
use crate::exit::{self, Exit};

const EXAMPLES: &str = "\
Examples:
  Try the embedded store for ten seconds.
    tenure verify

  Try a Redis for a minute, with more workers on fewer keys.
    TENURE_STORE=redis://host tenure verify --for 1m --workers 8 --keys 2

What is checked:
  fences   every grant's fence is greater than that of every grant before
  beliefs  no two workers believe in one key at the same time
  sink     a resource that checks fences lets no stale write through
  linear   all answers fit one order of events on a fenced mutex
  waiters  nobody waits too long, and a killed worker's key is free after its ttl
  A good verdict is about what happened in this time: it is evidence, and no proof.";

const CODES: [(Exit, &str); 2] = [
    (Exit::SUCCESS, "nothing was violated"),
    (Exit::No, "something was: the history is kept, and the last line says where"),
];

/// Try out whether a store excludes and fences
///
/// Starts workers as processes of their own, which take and write under the locks of a namespace of
/// a random name. They are killed and paused at random. Then what they wrote down is checked.
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct VerifyArgs {
    /// For how long, like 30s or 5m [default: 10s]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_some)]
    length: Option<Duration>,

    /// For how many seconds
    #[arg(long, value_name = "N", conflicts_with = "length")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,

    /// How many workers there are at a time
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// How many keys they share
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) keys: u16,

    /// The ttl of their leases
    ///
    /// Workers are paused for one and a half of it.
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, default_value = "2s")]
    pub(crate) ttl: Duration,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl VerifyArgs {
    /// For how long the workers work.
    pub(crate) fn length(&self) -> Duration {
        match (self.length, self.seconds) {
            (Some(length), _) => length,
            (None, Some(seconds)) => Duration::from_secs(seconds.into()),
            (None, None) => Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: VerifyArgs,
    }

    #[test]
    fn the_length_can_be_told_in_two_ways() {
        let length = |words: &[&str]| {
            Line::try_parse_from([&["verify"], words].concat()).ok().map(|line| line.args.length())
        };
        assert_eq!(length(&[]), Some(Duration::from_secs(10)));
        assert_eq!(length(&["--seconds", "3"]), Some(Duration::from_secs(3)));
        assert_eq!(length(&["--for", "1m30s"]), Some(Duration::from_secs(90)));
        assert_eq!(length(&["--for", "1m", "--seconds", "3"]), None);
        assert_eq!(length(&["--seconds", "0"]), None);
        assert_eq!(length(&["--for", "0s"]), None);
    }
}

//! `tenure list`: who holds what, once or live.

mod live;
mod table;

use std::io;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use tenure::clock::{Clock, SystemClock};
use tenure::{Locks, Status};

use crate::cli::{OutputArgs, StoreArgs, time};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::status_line::StatusLine;
use crate::{answer, open, say, terminal};
use live::Live;
use table::Table;

const EXAMPLES: &str = "\
Examples:
  All locks of the namespace, or those whose keys begin with order:
    tenure list
    tenure list order:

  A table that is kept up to date, as by top. Ctrl-C ends it.
    tenure list --watch

  The holder of each, for a program.
    tenure list --json | jq -r '[.key, .holder] | @tsv'

  No owner is ever shown. In a pipe, --watch prints the table again when a lock was granted or has
  ended; for one line per change see 'tenure watch'.";

const CODES: [(Exit, &str); 2] = [
    (Exit::SUCCESS, "the locks were listed, also when there are none, or Ctrl-C ended --watch"),
    (Exit::Signal(0), "and above: 128 + n, when another signal n ended --watch"),
];

const NONE: &str = "no locks";

/// Less than this would be work for the store and nothing for the eye.
const EVERY_MIN: Duration = Duration::from_millis(100);

/// List who holds what
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct ListArgs {
    /// Only the keys that begin with this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,

    /// Keep the table up to date until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// With --watch: how often to look
    #[arg(long, value_name = "DURATION", value_parser = every, default_value = "2s")]
    #[arg(requires = "watch")]
    every: Duration,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn every(text: &str) -> Result<Duration, String> {
    match time(text) {
        Ok(every) if every < EVERY_MIN => Err("look every 100ms at the most".into()),
        Ok(every) => Ok(every),
        Err(error) => Err(error.to_string()),
    }
}

/// Lists the locks.
pub(crate) async fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let output = &args.output;
    if args.watch {
        return Live::new(args)?.run().await;
    }
    let locks = open::locks(&args.store, output.verbose, open::USUAL_TTL).await?;
    let all = leases(&locks, &args.prefix).await.map_err(|error| Failure::advised(&error))?;
    if output.json {
        all.iter().try_for_each(|status| answer::json(&StatusLine::from(status)))?;
    } else if !all.is_empty() {
        answer::raw(
            &Table::new(&all, SystemClock.wall()).render(terminal::known_width(&io::stdout())),
        )?;
    } else if !output.quiet {
        say::progress(&NONE);
    }
    Ok(Exit::SUCCESS)
}

/// All leases whose keys begin with `prefix`.
async fn leases(locks: &Locks, prefix: &str) -> tenure::Result<Vec<Status>> {
    let mut stream = pin!(locks.list(prefix));
    let mut all = Vec::new();
    while let Some(status) = stream.next().await {
        all.push(status?);
    }
    Ok(all)
}

//! `tenure status`: who holds one lock.

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tenure::clock::{Clock, SystemClock};
use tenure::{Key, Status};

use crate::cli::{OutputArgs, StoreArgs, key};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::sheet::sheet;
use crate::spans::{ago, span};
use crate::status_line::StatusLine;
use crate::{answer, open};

const EXAMPLES: &str = "\
Examples:
  Who holds it, since when, and for how long yet?
    tenure status deploy

  Only whether it is held. It may have changed by the time you act on it: to act while nobody else
  does, take the lock.
    tenure status --quiet deploy && echo 'a deployment is running'";

const CODES: [(Exit, &str); 2] =
    [(Exit::SUCCESS, "the lock is held"), (Exit::No, "the lock is free")];

/// Say who holds a lock
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct StatusArgs {
    /// The name of the lock
    #[arg(value_parser = key)]
    key: Key,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Serialize)]
struct Locked {
    locked: bool,
    #[serde(flatten)]
    status: StatusLine,
}

/// Says who holds the lock.
pub(crate) async fn status(args: &StatusArgs) -> Result<Exit, Failure> {
    let locks = open::locks(&args.store, args.output.verbose, open::USUAL_TTL).await?;
    let status = locks.status(args.key.as_str()).await;
    let status = status.map_err(|error| Failure::advised(&error))?;
    answer::heard_or_not(print(args, status.as_ref()))?;
    Ok(if status.is_some() { Exit::SUCCESS } else { Exit::No })
}

fn print(args: &StatusArgs, status: Option<&Status>) -> Result<(), Failure> {
    match status {
        Some(status) if args.output.json => {
            answer::json(&Locked { locked: true, status: StatusLine::from(status) })
        }
        None if args.output.json => {
            answer::json(&json!({ "key": args.key.as_str(), "locked": false }))
        }
        // The exit code says it.
        _ if args.output.quiet => Ok(()),
        Some(status) => sheet(&rows(status)),
        None => answer::line("free"),
    }
}

/// A lease as people look at it.
pub(crate) fn rows(status: &Status) -> [(&'static str, String); 5] {
    [
        ("key", status.key.to_string()),
        ("holder", status.holder.to_string()),
        ("granted", ago(status.granted_at, SystemClock.wall())),
        ("ttl left", format!("{} of {}", span(status.remaining), span(status.ttl))),
        ("fence", status.fence.to_string()),
    ]
}

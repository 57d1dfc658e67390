//! `tenure force-release`: takes a lock from whoever holds it, for an operator.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tenure::clock::{Clock, SystemClock};
use tenure::{ErrorKind, Key, Locks, Status};

use crate::cli::{OutputArgs, StoreArgs, key};
use crate::commands::status;
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::plain::plain;
use crate::spans::ago;
use crate::status_line::StatusLine;
use crate::{answer, open};

const EXAMPLES: &str = "\
Examples:
  Take the lock of a machine that is gone. You are shown who loses it, and asked.
    tenure force-release deploy --reason 'build-7 was shut down'

  The same in a script.
    tenure force-release deploy --reason 'build-7 was shut down' --yes

  Whoever held it is not stopped by this: it learns of it at its next renewal, and may work until
  then. What it still writes must be refused by its fence, which is smaller than the next one's.";

const CODES: [(Exit, &str); 2] = [
    (Exit::SUCCESS, "the lock was taken away"),
    (Exit::No, "nothing was taken away: the lock is free, or you said no"),
];

/// Take a lock away from whoever holds it
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct ForceReleaseArgs {
    /// The name of the lock
    #[arg(value_parser = key)]
    key: Key,

    /// Why, for those who ask later
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// Do not ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Serialize)]
struct Forced<'a> {
    forced: bool,
    reason: &'a str,
    #[serde(flatten)]
    lost: StatusLine,
}

/// What stands on the key.
enum Found {
    Lease(Status),
    /// An entry that cannot be read: to take it away makes the key usable again.
    Damaged(tenure::Error),
}

/// Takes the lock away, if it is meant.
pub(crate) async fn force_release(args: &ForceReleaseArgs) -> Result<Exit, Failure> {
    if !args.yes && !io::stdin().is_terminal() {
        let text = "there is no terminal to ask on whether the lock is to be taken away";
        return Err(Failure::new(Exit::Usage, text).advise("say --yes if it is"));
    }
    let locks = open::locks(&args.store, args.output.verbose, open::USUAL_TTL).await?;
    let found = find(&locks, &args.key).await?;
    if !args.yes {
        confirm(&found)?;
        let now = find(&locks, &args.key).await?;
        if grant(&found) != grant(&now) {
            let text = format!("{:?} has gone to another holder since you were asked", args.key);
            return Err(Failure::new(Exit::No, text).advise("look again"));
        }
    }
    let taken = locks.force_release(args.key.as_str(), &args.reason).await;
    match (taken.map_err(|error| Failure::advised(&error))?, found) {
        (Some(lost), _) => answer::heard_or_not(print(args, &lost))?,
        (None, Found::Damaged(_)) => answer::heard_or_not(print_replaced(args))?,
        (None, Found::Lease(_)) => return Err(free(&args.key)),
    }
    Ok(Exit::SUCCESS)
}

async fn find(locks: &Locks, key: &Key) -> Result<Found, Failure> {
    match locks.status(key.as_str()).await {
        Ok(Some(status)) => Ok(Found::Lease(status)),
        Ok(None) => Err(free(key)),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(Found::Damaged(error)),
        Err(error) => Err(Failure::advised(&error)),
    }
}

fn grant(found: &Found) -> Option<tenure::Fence> {
    match found {
        Found::Lease(status) => Some(status.fence),
        Found::Damaged(_) => None,
    }
}

fn free(key: &Key) -> Failure {
    Failure::new(Exit::No, format!("{key:?} is free: there is nothing to take away"))
}

/// Shows who will lose it, and asks. Anything but a yes is a no.
fn confirm(found: &Found) -> Result<(), Failure> {
    let mut text = String::new();
    match found {
        Found::Lease(status) => {
            for (name, value) in status::rows(status) {
                text += &format!("{name:8}  {}\n", plain(&value));
            }
        }
        Found::Damaged(error) => text += &format!("{}\n", plain(&error.to_string())),
    }
    let failed = |error| Failure::caused(Exit::Internal, "the terminal cannot be asked", &error);
    let mut stderr = io::stderr();
    write!(stderr, "{text}Take it away? [y/N] ").and_then(|()| stderr.flush()).map_err(failed)?;
    let mut said = String::new();
    io::stdin().lock().read_line(&mut said).map_err(failed)?;
    if matches!(said.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::new(Exit::No, "nothing was taken away"))
}

fn print_replaced(args: &ForceReleaseArgs) -> Result<(), Failure> {
    let key = args.key.as_str();
    if args.output.json {
        return answer::json(&json!({ "forced": true, "reason": args.reason, "key": key }));
    }
    answer::line(&format!("the entry of {key:?} was damaged, and is replaced"))
}

fn print(args: &ForceReleaseArgs, lost: &Status) -> Result<(), Failure> {
    if args.output.json {
        let (reason, lost) = (args.reason.as_str(), StatusLine::from(lost));
        return answer::json(&Forced { forced: true, reason, lost });
    }
    if args.output.quiet {
        return Ok(());
    }
    let Status { key, holder, fence, granted_at, .. } = lost;
    let since = ago(*granted_at, SystemClock.wall());
    answer::line(&format!("{key:?} was taken from {holder} (fence {fence}, granted {since})"))
}

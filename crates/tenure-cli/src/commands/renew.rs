//! `tenure renew`: prolongs a lease by key and owner, whichever process took it.

use std::time::Duration;

use clap::Args;
use tenure::{Key, Locks, Status};

use crate::cli::{OutputArgs, StoreArgs, key};
use crate::duration::parse_ttl;
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::owner_args::OwnerArgs;
use crate::sheet::sheet;
use crate::spans::span;
use crate::status_line::StatusLine;
use crate::{answer, open};

const EXAMPLES: &str = "\
Examples:
  Between two long steps: stop when the lock is not ours any more.
    tenure renew deploy --owner-file deploy.owner --ttl 20m || exit

  A lease is never shortened, and one that has ended is never revived: take the lock anew then. Its
  fence is another, so that what the lost one still writes can be refused.";

const CODES: [(Exit, &str); 2] = [
    (Exit::SUCCESS, "the lease was prolonged"),
    (Exit::No, "the lock is lost: no lease stands on the key, or another owner's"),
];

/// Prolong a lock
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct RenewArgs {
    /// The name of the lock
    #[arg(value_parser = key)]
    key: Key,

    /// For how long from now [default: as when it was acquired]
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    ttl: Option<Duration>,

    #[command(flatten)]
    owner: OwnerArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Prolongs the lease.
pub(crate) async fn renew(args: &RenewArgs) -> Result<Exit, Failure> {
    let owner = args.owner.resolve()?;
    let locks = open::locks(&args.store, args.output.verbose, open::USUAL_TTL).await?;
    let ttl = match args.ttl {
        Some(ttl) => ttl,
        None => ttl_of(&locks, &args.key).await?,
    };
    let renewed = locks.renew(args.key.as_str(), &owner, ttl).await;
    let status = renewed.map_err(|error| Failure::advised(&error))?.status();
    if args.output.json {
        answer::json(&StatusLine::from(&status))?;
    } else if !args.output.quiet {
        print(&status)?;
    }
    Ok(Exit::SUCCESS)
}

/// The ttl of the lease that stands on the key. Where there is none, the renewal says so.
async fn ttl_of(locks: &Locks, key: &Key) -> Result<Duration, Failure> {
    let status = locks.status(key.as_str()).await.map_err(|error| Failure::advised(&error))?;
    Ok(status.map_or(open::USUAL_TTL, |status| status.ttl))
}

fn print(status: &Status) -> Result<(), Failure> {
    sheet(&[
        ("key", status.key.to_string()),
        ("fence", status.fence.to_string()),
        ("ttl", span(status.ttl)),
        ("holder", status.holder.to_string()),
    ])
}

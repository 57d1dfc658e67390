//! `tenure acquire`: a lock that outlives the command, for whoever has its owner.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tenure::{Key, Lease, LockRequest, Locks};

use crate::cli::{OutputArgs, StoreArgs, WaitArgs, key};
use crate::duration::parse_ttl;
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::sheet::sheet;
use crate::signals::Signals;
use crate::spans::span;
use crate::status_line::StatusLine;
use crate::{answer, open, owner_file, say, waiting};

const EXAMPLES: &str = "\
Examples:
  Take a lock in one step of a pipeline and give it back in another.
    tenure acquire deploy --ttl 20m --owner-file deploy.owner
    tenure release deploy --owner-file deploy.owner

  Use the fence, so that a writer that comes too late is refused.
    fence=$(tenure acquire import --owner-file import.owner --json | jq .fence)

  Where the work is one command, 'tenure run' is the better way: it renews the lock, and stops the
  command when the lock is lost.";

const CODES: [(Exit, &str); 3] = [
    (Exit::SUCCESS, "the lock was acquired"),
    (Exit::NotAcquired, "the lock was not acquired: held, or the wait was over"),
    (Exit::Signal(0), "and above: 128 + n, when signal n ended the wait; nothing is locked"),
];

/// Take a lock and leave it
///
/// The lock stays when this command has ended. Nobody renews it: it ends after the ttl, unless
/// 'tenure renew' prolongs it or 'tenure release' gives it back. Both need the owner, the secret
/// that this prints, or writes into a file.
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct AcquireArgs {
    /// The name of the lock
    #[arg(value_parser = key)]
    key: Key,

    #[command(flatten)]
    wait: WaitArgs,

    /// How long the lock is held when nobody renews it
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, default_value = "30s")]
    ttl: Duration,

    /// What others see of the holder, behind host and process
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Write the owner into this new file instead of printing it
    ///
    /// Only this user can read it. A file that is there already is not overwritten, and then
    /// nothing is locked.
    #[arg(long, value_name = "FILE")]
    owner_file: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A lease as its holder may see it.
#[derive(Serialize)]
struct LeaseLine {
    #[serde(flatten)]
    status: StatusLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

/// Takes the lock. After an error, nothing stays locked.
pub(crate) async fn acquire(args: &AcquireArgs) -> Result<Exit, Failure> {
    if let Some(path) = args.owner_file.as_deref().filter(|path| path.symlink_metadata().is_ok()) {
        return Err(not_written(path, &io::ErrorKind::AlreadyExists.into()));
    }
    let work = async |locks: &Locks, signals: &mut Signals| acquire_on(locks, args, signals).await;
    open::using(&args.store, args.output.verbose, args.ttl, work).await
}

async fn acquire_on(
    locks: &Locks,
    args: &AcquireArgs,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let request = request(locks, args);
    let guard = match waiting::acquire(locks, &args.key, request, &args.output, signals).await? {
        Ok(guard) => guard,
        Err(signal) => return Ok(Exit::of_signal(signal)),
    };
    let lease = guard.detach();
    let Err(failure) = hand_over(&lease, args) else { return Ok(Exit::SUCCESS) };
    // Nobody knows the owner: nobody could give it back.
    if let Err(error) = locks.release(lease.key.as_str(), &lease.owner).await {
        say::not_given_back(&error);
    }
    Err(failure)
}

fn request(locks: &Locks, args: &AcquireArgs) -> LockRequest {
    let mut request = locks.lock(args.key.as_str()).ttl(args.ttl).keep_alive(false);
    if let Some(wait) = args.wait.limit() {
        request = request.wait(wait);
    }
    match &args.note {
        Some(note) => request.holder(note),
        None => request,
    }
}

/// Tells the lease to whoever asked for it. After an error nobody has its owner.
fn hand_over(lease: &Lease, args: &AcquireArgs) -> Result<(), Failure> {
    let Some(path) = &args.owner_file else {
        return print(lease, Some(lease.owner.expose()), args.output.json).map_err(|failure| {
            if failure.is_silent() {
                Failure::new(Exit::Internal, "nobody reads the answer: the lock is given back")
                    .advise("use --owner-file to leave the owner in a file")
            } else {
                failure
            }
        });
    };
    owner_file::write_new(path, &lease.owner).map_err(|error| not_written(path, &error))?;
    answer::heard_or_not(print(lease, None, args.output.json)).inspect_err(|_| {
        // The lock is given back, so the file proves nothing.
        let _ = std::fs::remove_file(path);
    })
}

fn print(lease: &Lease, owner: Option<String>, json: bool) -> Result<(), Failure> {
    if json {
        return answer::json(&LeaseLine { status: StatusLine::from(&lease.status()), owner });
    }
    let mut rows = vec![("key", lease.key.to_string()), ("fence", lease.fence.to_string())];
    rows.extend(owner.map(|owner| ("owner", owner)));
    rows.extend([("ttl", span(lease.ttl)), ("holder", lease.holder.to_string())]);
    sheet(&rows)
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    let text = format!("the owner's file {} cannot be written", path.display());
    if error.kind() == io::ErrorKind::AlreadyExists {
        let advice = "name a file that is not there, or remove it if its lease has ended";
        return Failure::caused(Exit::Usage, &text, error).advise(advice);
    }
    Failure::caused(Exit::Internal, &text, error).advise("name a file that can be written")
}

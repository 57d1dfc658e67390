//! What `tenure run` can be told.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use tenure::Key;

use super::held::OnLost;
use crate::cli::{OutputArgs, StoreArgs, WaitArgs, key, time};
use crate::duration::parse_ttl;
use crate::exit::{self, Exit};

const EXAMPLES: &str = "\
Examples:
  In a crontab: skip this run while the last one still goes on.
    */5 * * * *  tenure run --no-wait report -- /usr/local/bin/report

  Wait up to ten minutes for a running deployment to end.
    tenure run deploy --wait 10m -- ./deploy.sh production

  Do something else when the lock is held.
    tenure run --no-wait --quiet import -- ./import.sh
    [ $? -eq 75 ] && echo 'an import is running already'

  Once a day, on whichever of ten machines comes first, and again if it failed.
    0 3 * * *  tenure run --no-wait --once-per 23h --retry-failed billing -- ./billing.sh

  Use the fence: the number grows with every grant, so that the resource can refuse a writer that
  was paused and has lost its lock without knowing.
    tenure run import -- sh -c 'psql -v fence=\"$TENURE_FENCE\" -f import.sql'
  with, in import.sql:
    UPDATE import SET fence = :fence, state = 'done' WHERE fence <= :fence;

The command's environment:
  TENURE_KEY         the key
  TENURE_FENCE       the fence of this grant
  TENURE_OWNER_FILE  a file with the secret that proves the lock, as 'tenure renew' wants it; it is
                     gone when the command ends

Signals:
  SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to the command, and SIGINT and SIGQUIT too
  where no terminal sends them to it. tenure ends after the command does.
  SIGTSTP suspends both. Nobody renews the lock then: before the lease can end, the command is
  killed.
  When the lock is about to be lost, the command gets SIGTERM, and SIGKILL before another can be
  granted the lock, and so does all that it started; with the second SIGTERM or SIGINT to tenure, at
  once. If tenure itself is killed, they are too, and if it is stopped or held up, before the lease
  can end.";

const CODES: [(Exit, &str); 4] = [
    (Exit::NotAcquired, "the lock was not acquired: held, or the wait was over; nothing was run"),
    (Exit::Lost, "the lock was lost; the command was stopped, or went on as --on-lost says"),
    (Exit::NotExecutable, "the command cannot be executed"),
    (Exit::NotFound, "the command was not found"),
];

/// What a command under a lock may end with, behind `examples`.
fn help(examples: &str) -> String {
    let own = "  The command's own, or 128 + n when signal n killed it. Otherwise:";
    let text = exit::help(examples, &CODES).replace("Exit codes:", &format!("Exit codes:\n{own}"));
    let apart =
        "A command may end with one of these itself; what tenure says on stderr tells them apart";
    format!("{text}\n  {apart}.")
}

/// Run a command under a lock
///
/// Waits for the lock, runs the command while keeping the lock alive, and gives it back when the
/// command ends. No server is needed: without --store the locks are in a file of this user, which
/// all processes of this machine share.
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = help(EXAMPLES))]
pub(crate) struct RunArgs {
    /// The name of the lock
    #[arg(value_parser = key)]
    pub(crate) key: Key,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    /// How long the lock outlives a tenure that is killed
    ///
    /// While the command runs the lock is renewed, three times in this time. A longer ttl rides
    /// out longer failures of the store; a shorter one frees the lock sooner after a crash.
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, default_value = "30s")]
    pub(crate) ttl: Duration,

    /// Keep the lock for at least this long, however short the command is
    ///
    /// The store keeps it after tenure has ended, for up to a ttl longer. So a job that takes a
    /// moment is not run again by another machine whose clock is a little behind.
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) at_least: Option<Duration>,

    /// Run the command at most once in this time, on whatever machine
    ///
    /// Counted from the start of the last run by the clock of the store: no two machines' clocks
    /// have to agree. Choose it a little shorter than the time between two starts, such as 23h for
    /// a job that is started every day. When it was run already and succeeded, this ends with 0;
    /// when it failed, or nobody knows how it ended, with 75.
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) once_per: Option<Duration>,

    /// With --once-per: run it again if the last run did not end with 0
    #[arg(long, requires = "once_per")]
    pub(crate) retry_failed: bool,

    /// Stop the command and give the lock back after this time
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,

    /// What becomes of the command when the lock is lost
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,

    /// The exit code for a lock that was not acquired, instead of 75
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// The command to run and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

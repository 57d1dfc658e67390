//! The command line: what all commands share of it.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tenure::{Error, Key, Limits, Namespace};
use tenure_api::duration::{DurationError, parse};

use crate::commands::acquire::AcquireArgs;
use crate::commands::bench::BenchArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::config::ConfigArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::elect::ElectArgs;
use crate::commands::force_release::ForceReleaseArgs;
use crate::commands::list::ListArgs;
use crate::commands::man::ManArgs;
use crate::commands::release::ReleaseArgs;
use crate::commands::renew::RenewArgs;
use crate::commands::run::RunArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::status::StatusArgs;
use crate::commands::verify::VerifyArgs;
use crate::commands::watch::WatchArgs;

const EXAMPLES: &str = "\
Examples:
  A cron job that never runs twice at once, and is skipped while it still runs:
    */5 * * * *  tenure run --no-wait report -- /usr/local/bin/report

  One after the other, with the locks in a file of your choice:
    tenure run --store file:/var/lib/app/locks.db deploy -- ./deploy.sh

  Who holds what, live:
    tenure list --watch

See 'tenure run --help' for more, and the help of each command for its exit codes.";

/// Distributed locks with fencing, on the store you already run.
#[derive(Debug, Parser)]
#[command(
    name = "tenure",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    disable_help_subcommand = true,
    after_long_help = EXAMPLES
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Elect(ElectArgs),
    Acquire(AcquireArgs),
    Renew(RenewArgs),
    Release(ReleaseArgs),
    Status(StatusArgs),
    List(ListArgs),
    Watch(WatchArgs),
    ForceRelease(ForceReleaseArgs),
    Serve(Box<ServeArgs>),
    Doctor(DoctorArgs),
    Verify(VerifyArgs),
    Bench(BenchArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Which store.
#[derive(Args, Debug)]
pub(crate) struct PlaceArgs {
    /// The store's URL [default: a file of this user]
    ///
    /// Like file:/var/lib/app/locks.db. The default is $XDG_DATA_HOME/tenure/locks.db, or
    /// ~/.local/share/tenure/locks.db. To keep a password out of the process list, use
    /// TENURE_STORE.
    // No parser here: clap would repeat a bad URL, and with it a password.
    #[arg(id = "store", long, value_name = "URL", env = "TENURE_STORE", hide_env_values = true)]
    pub(crate) url: Option<String>,
}

/// Where the locks are.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// The room for the keys [default: default]
    ///
    /// The same key in two namespaces is two locks.
    #[arg(long, value_name = "NAME", env = "TENURE_NAMESPACE", hide_env_values = true)]
    #[arg(value_parser = Namespace::new)]
    pub(crate) namespace: Option<Namespace>,
}

/// How long to wait for a lock that is held.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Wait at most this long, like 10s or 1h30m [default: until it is granted]
    ///
    /// A store that fails is asked again until this time is over, or without it for 30 s on end.
    #[arg(long = "wait", value_name = "DURATION", value_parser = time, conflicts_with = "no_wait")]
    longest: Option<Duration>,

    /// Do not wait: end with 75 when the lock is held
    #[arg(long)]
    no_wait: bool,
}

impl WaitArgs {
    /// How long to wait; `None` is until it is granted.
    pub(crate) fn limit(&self) -> Option<Duration> {
        if self.no_wait { Some(Duration::ZERO) } else { self.longest }
    }
}

/// What to say.
#[derive(Args, Debug)]
pub(crate) struct OutputArgs {
    /// Say nothing but what went wrong
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say which store is used, and log to stderr what TENURE_LOG names
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Say everything as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads a key, within the limit that every store keeps.
pub(crate) fn key(text: &str) -> Result<Key, Error> {
    Key::with_limit(text, Limits::default().key_bytes)
}

/// Reads a length of time.
pub(crate) fn time(text: &str) -> Result<Duration, DurationError> {
    parse(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        wait: WaitArgs,
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_wait_is_a_wait_of_zero() {
        let limit =
            |words: &[&str]| Line::try_parse_from([&["run"], words].concat()).unwrap().wait.limit();
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&["--no-wait"]), Some(Duration::ZERO));
        assert_eq!(limit(&["--wait", "0s"]), Some(Duration::ZERO));
        assert_eq!(limit(&["--wait", "2m"]), Some(Duration::from_secs(120)));
    }
}

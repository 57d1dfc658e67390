//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tenure::{Error, Key, Limits, Namespace};
use tenure_api::duration::{DurationError, parse};

use crate::duration::parse_ttl;

const EXAMPLES: &str = "\
Examples:
  A cron job that never runs twice at once, and is skipped while it still runs:
    */5 * * * *  tenure run --no-wait report -- /usr/local/bin/report

  One after the other, with the locks in a file of your choice:
    tenure run --store file:/var/lib/app/locks.db deploy -- ./deploy.sh

See 'tenure run --help' for more, and for the exit codes.";

const RUN_EXAMPLES: &str = "\
Examples:
  In a crontab: skip this run while the last one still goes on.
    */5 * * * *  tenure run --no-wait report -- /usr/local/bin/report

  Wait up to ten minutes for a running deployment to end.
    tenure run deploy --wait 10m -- ./deploy.sh production

  Do something else when the lock is held.
    tenure run --no-wait --quiet import -- ./import.sh
    [ $? -eq 75 ] && echo 'an import is running already'

  Use the fence: the number grows with every grant, so that the resource can refuse a writer that
  was paused and has lost its lock without knowing.
    tenure run import -- sh -c 'psql -v fence=\"$TENURE_FENCE\" -f import.sql'
  with, in import.sql:
    UPDATE import SET fence = :fence, state = 'done' WHERE fence <= :fence;

The command's environment:
  TENURE_KEY    the key
  TENURE_FENCE  the fence of this grant

Signals:
  SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to the command, and SIGINT and SIGQUIT too
  where no terminal sends them to it. tenure ends after the command does.
  When the lock is about to be lost, the command gets SIGTERM, and SIGKILL before another can be
  granted the lock. Without a terminal, so does all that it started.

Exit codes:
  The command's own, or 128 + n when signal n killed it. Otherwise:
   64  the command line is wrong
   69  the store cannot be used: unavailable, damaged, denied or unsuitable
   70  a fault of tenure itself or of the system
   75  the lock was not acquired: held, or the wait was over; the command was not run
   76  the lock was lost while the command ran; the command was stopped
  126  the command cannot be executed
  127  the command was not found
  A command may end with one of these itself; what tenure says on stderr tells them apart.";

const SERVE_EXAMPLES: &str = "\
Examples:
  Serve locks on this machine, and take one.
    tenure serve
    curl -d '{\"ttl\": \"30s\"}' http://127.0.0.1:7117/v1/locks/report

  A sidecar over Redis, for any language and for Dapr's SDKs.
    TENURE_STORE=redis://10.0.0.5 tenure serve --dapr-http-port --dapr-grpc-port

Environment:
  DAPR_API_TOKEN  a token beside those of the configuration, as Dapr has it: with it set, whoever
                  calls must bring one, and this one may lock, unlock and force in the namespace
                  'default'

Signals:
  SIGTERM and SIGINT end it cleanly: streams are told, locks are given back or left as the
  configuration says. SIGHUP reads the tokens and certificates anew.";

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
    Run(RunArgs),
    Serve(Box<ServeArgs>),
}

/// Run a command under a lock
///
/// Waits for the lock, runs the command while keeping the lock alive, and gives it back when the
/// command ends. No server is needed: without --store the locks are in a file of this user, which
/// all processes of this machine share.
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The name of the lock
    #[arg(value_parser = key)]
    pub(crate) key: Key,

    /// Wait at most this long, like 500ms, 10s or 1h30m [default: without end]
    #[arg(long, value_name = "DURATION", value_parser = wait, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Do not wait: end with 75 when the lock is held
    #[arg(long)]
    no_wait: bool,

    /// How long the lock outlives a tenure that is killed
    ///
    /// While the command runs the lock is renewed, three times in this time. A longer ttl rides
    /// out longer failures of the store; a shorter one frees the lock sooner after a crash.
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, default_value = "30s")]
    pub(crate) ttl: Duration,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// The command to run and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// How long to wait; `None` is without end.
    pub(crate) fn wait(&self) -> Option<Duration> {
        if self.no_wait { Some(Duration::ZERO) } else { self.wait }
    }
}

/// Serve locks over HTTP and gRPC
///
/// One port for both. Without a store the locks are in a file of this user; over a store that is
/// shared, any number of servers give the same locks.
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDRESS", env = "TENURE_LISTEN")]
    pub(crate) listen: Option<SocketAddr>,

    /// The store's URL [default: a file in the user's data folder]
    ///
    /// Only where the configuration has no stores. To keep a password out of the process list, use
    /// TENURE_STORE.
    #[arg(long, value_name = "URL", env = "TENURE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,

    /// The configuration, in TOML
    #[arg(long, value_name = "FILE", env = "TENURE_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Check the configuration and open the stores, but do not serve
    #[arg(long)]
    pub(crate) check: bool,

    /// Allow another address than loopback without TLS or without tokens
    #[arg(long, env = "TENURE_INSECURE")]
    pub(crate) insecure: bool,

    /// Serve Dapr's HTTP API on this port, on 3500 when none is given
    #[arg(long, value_name = "PORT", env = "DAPR_HTTP_PORT")]
    #[arg(num_args = 0..=1, default_missing_value = "3500")]
    pub(crate) dapr_http_port: Option<u16>,

    /// Serve Dapr's gRPC API on this port, on 50001 when none is given
    #[arg(long, value_name = "PORT", env = "DAPR_GRPC_PORT")]
    #[arg(num_args = 0..=1, default_missing_value = "50001")]
    pub(crate) dapr_grpc_port: Option<u16>,

    /// A folder with Dapr's components: those of type lock.redis become stores
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dapr_components: Option<PathBuf>,

    /// The application beside which this server runs, as Dapr knows it
    #[arg(long, value_name = "NAME", env = "APP_ID")]
    pub(crate) app_id: Option<String>,

    /// Hand Forrst's calls on to this server, under the locks that they ask for
    // No parser here: clap would repeat a bad URL, and with it a password.
    #[arg(long, value_name = "URL", env = "TENURE_FORRST_UPSTREAM", hide_env_values = true)]
    pub(crate) forrst_upstream: Option<String>,

    /// Log as JSON
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// Where the locks are.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// The store's URL [default: a file in the user's data folder]
    ///
    /// Like file:/var/lib/app/locks.db. The default is $XDG_DATA_HOME/tenure/locks.db, or
    /// ~/.local/share/tenure/locks.db. To keep a password out of the process list, use
    /// TENURE_STORE.
    // No parser here: clap would repeat a bad URL, and with it a password.
    #[arg(long, value_name = "URL", env = "TENURE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,

    /// The room for the keys: the same key in two namespaces is two locks [default: default]
    #[arg(long, value_name = "NAME", value_parser = Namespace::new)]
    pub(crate) namespace: Option<Namespace>,
}

/// What to say.
#[derive(Args, Debug)]
pub(crate) struct OutputArgs {
    /// Say nothing while waiting
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say which store is used, and log to stderr what TENURE_LOG names
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

fn key(text: &str) -> Result<Key, Error> {
    Key::with_limit(text, Limits::default().key_bytes)
}

fn wait(text: &str) -> Result<Duration, DurationError> {
    parse(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_wait_is_a_wait_of_zero() {
        let wait = |more: &[&str]| {
            let line = ["tenure", "run", "k"].iter().chain(more).chain(&["--", "true"]);
            match Cli::try_parse_from(line).unwrap().command {
                Command::Run(args) => args.wait(),
                Command::Serve(_) => unreachable!(),
            }
        };
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&["--no-wait"]), Some(Duration::ZERO));
        assert_eq!(wait(&["--wait", "0s"]), Some(Duration::ZERO));
        assert_eq!(wait(&["--wait", "2m"]), Some(Duration::from_secs(120)));
    }
}

//! The command `tenure`: runs a program under a distributed lock.
//!
//! ```text
//! main ── parse ──▶ run ── open · acquire ──▶ child ── spawn · signals · stop ──▶ exit code
//!        cli.rs    run.rs  store_url.rs      child.rs  signals.rs                 exit.rs
//!        duration.rs                                                              failure.rs
//! ```

mod child;
mod cli;
mod duration;
mod exit;
mod failure;
mod log;
mod run;
mod say;
mod serve;
mod signals;
mod store_url;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, Command};
use exit::Exit;
use failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return explain(&answer).into(),
    };
    // The message of a panic is on stderr already.
    let outcome = catch_unwind(AssertUnwindSafe(|| execute(cli))).unwrap_or(Ok(Exit::Internal));
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            say::error(&failure);
            failure.exit().into()
        }
    }
}

/// Prints what clap has to say: help and version that were asked for, or what is wrong.
fn explain(answer: &clap::Error) -> Exit {
    // Whoever closed the pipe does not want the rest of it.
    let _ = answer.print();
    match answer.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::SUCCESS,
        _ => Exit::Usage,
    }
}

fn execute(cli: Cli) -> Result<Exit, Failure> {
    match cli.command {
        Command::Run(args) => {
            log::start(args.output.verbose)?;
            on_runtime(&mut tokio::runtime::Builder::new_current_thread(), run::run(&args))
        }
        Command::Serve(args) => {
            on_runtime(&mut tokio::runtime::Builder::new_multi_thread(), serve::serve(&args))
        }
    }
}

fn on_runtime(
    builder: &mut tokio::runtime::Builder,
    work: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::caused(Exit::Internal, "no runtime could be started", &error))?;
    let outcome = runtime.block_on(work);
    // Nothing is waited for any more: what was to be given back has been, or ends with its ttl.
    runtime.shutdown_background();
    outcome
}

//! The command `tenure`: distributed locks for a shell, a crontab and an operator.
//!
//! ```text
//! main ── parse ──▶ commands/ ── open ──▶ tenure ──▶ answer, say ──▶ exit code
//!        cli.rs     one file    open.rs             answer.rs        exit.rs
//!        duration.rs each       store_url.rs        say.rs           failure.rs
//! ```

mod answer;
mod chance;
mod cli;
mod commands;
mod duration;
mod exit;
mod failure;
mod log;
mod open;
mod ourselves;
mod owner_args;
mod owner_file;
mod plain;
mod progress;
mod say;
mod scratch;
mod sheet;
mod signals;
mod spans;
mod status_line;
mod store_url;
mod style;
mod terminal;
mod trouble;
mod waiting;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use mimalloc::MiMalloc;
use tokio::runtime::Builder;

use cli::{Cli, Command, OutputArgs};
use exit::Exit;
use failure::Failure;

/// What one thread of the server asks for, another gives back: the C library's allocator is slow at
/// that, and keeps more memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    if let Some(ended) = ourselves::part() {
        return ended;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return explain(&answer).into(),
    };
    // The message of a panic is on stderr already.
    let outcome = catch_unwind(AssertUnwindSafe(|| execute(cli))).unwrap_or(Ok(Exit::Internal));
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.is_silent() {
                say::failure(&failure);
            }
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
        Command::Run(args) => small(&args.output, commands::run::run(&args)),
        Command::Acquire(args) => small(&args.output, commands::acquire::acquire(&args)),
        Command::Renew(args) => small(&args.output, commands::renew::renew(&args)),
        Command::Release(args) => small(&args.output, commands::release::release(&args)),
        Command::Status(args) => small(&args.output, commands::status::status(&args)),
        Command::List(args) => small(&args.output, commands::list::list(&args)),
        Command::Watch(args) => small(&args.output, commands::watch::watch(&args)),
        Command::ForceRelease(args) => {
            small(&args.output, commands::force_release::force_release(&args))
        }
        Command::Elect(args) => small(&args.output, commands::elect::elect(&args)),
        Command::Serve(args) => {
            on_runtime(&mut Builder::new_multi_thread(), commands::serve::serve(&args))
        }
        Command::Doctor(args) => small(&args.output, commands::doctor::doctor(&args)),
        Command::Verify(args) => small(&args.output, commands::verify::verify(&args)),
        Command::Bench(args) => {
            begin(&args.output)?;
            on_runtime(&mut Builder::new_multi_thread(), commands::bench::bench(&args))
        }
        Command::Config(args) => commands::config::config(&args),
        Command::Completions(args) => commands::completions::completions(&args),
        Command::Man(args) => commands::man::man(&args),
    }
}

/// A command that needs no more than this thread.
fn small(
    output: &OutputArgs,
    work: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    begin(output)?;
    on_runtime(&mut Builder::new_current_thread(), work)
}

/// Has what is said and logged said and logged as asked.
fn begin(output: &OutputArgs) -> Result<(), Failure> {
    if output.json {
        say::in_json();
    }
    log::start(output.verbose)
}

fn on_runtime(
    builder: &mut Builder,
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

//! `tenure man`: the manual, made of the help.

use clap::{Args, CommandFactory};
use clap_mangen::Man;

use crate::answer;
use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  Read the page of a command.
    tenure man run | man -l -

  Install the pages of tenure and of one of its commands.
    tenure man > /usr/local/share/man/man1/tenure.1
    tenure man run > /usr/local/share/man/man1/tenure-run.1";

/// Print a page of the manual
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The command whose page it is [default: tenure itself]
    command: Option<String>,
}

/// Prints the page, in roff.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let mut cli = Cli::command();
    // It gives each command its full name, such as tenure-run.
    cli.build();
    let mut page = match &args.command {
        None => cli,
        Some(name) => cli.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::new(Exit::Usage, format!("there is no command {name:?}"))
                .advise("'tenure --help' lists them")
        })?,
    };
    let mut text = Vec::new();
    Man::new(page)
        .render(&mut text)
        .map_err(|error| Failure::caused(Exit::Internal, "the page cannot be written", &error))?;
    answer::raw(&String::from_utf8_lossy(&text))?;
    Ok(Exit::SUCCESS)
}

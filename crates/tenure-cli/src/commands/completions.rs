//! `tenure completions`: what a shell needs to complete our command lines.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::answer;
use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  bash, for this user:
    tenure completions bash > ~/.local/share/bash-completion/completions/tenure

  zsh, in a folder of $fpath:
    tenure completions zsh > ~/.zfunc/_tenure

  fish:
    tenure completions fish > ~/.config/fish/completions/tenure.fish";

/// Print the completions for a shell
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell that is to complete
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for the shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "tenure", &mut script);
    answer::raw(&String::from_utf8_lossy(&script))?;
    Ok(Exit::SUCCESS)
}

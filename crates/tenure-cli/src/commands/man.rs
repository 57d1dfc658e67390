//! `tenure man`: the manual, made of the help.

use clap::builder::Resettable;
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
    let page = match &args.command {
        None => cli,
        Some(name) => cli.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::new(Exit::Usage, format!("there is no command {name:?}"))
                .advise("'tenure --help' lists them")
        })?,
    };
    let rest = page.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let page = Man::new(page.after_long_help(Resettable::Reset))
        .source(concat!("tenure ", env!("CARGO_PKG_VERSION")))
        .manual("tenure");
    let mut text = Vec::new();
    page.render(&mut text)
        .map_err(|error| Failure::caused(Exit::Internal, "the page cannot be written", &error))?;
    answer::raw(&format!("{}{}", String::from_utf8_lossy(&text), sections(&rest)))?;
    Ok(Exit::SUCCESS)
}

/// The end of a help text: a line such as `Examples:` begins a section, and all lines stay as they
/// are, because many of them are commands.
fn sections(text: &str) -> String {
    let mut roff = String::new();
    for line in text.lines() {
        let is_head = !line.starts_with(' ') && line.ends_with(':');
        if is_head {
            let head = line.trim_end_matches(':').to_uppercase();
            roff += &format!(".fi\n.SH {}\n.nf\n", escaped(&head));
        } else {
            // A dot or a quote would begin a request.
            roff += &format!("\\&{}\n", escaped(line));
        }
    }
    if roff.is_empty() { roff } else { roff + ".fi\n" }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_the_help_is_a_request() {
        let roff = sections("Exit codes:\n  1  no\n.so /etc/passwd\n'x -y\\z'");
        assert_eq!(
            roff,
            ".fi\n.SH EXIT CODES\n.nf\n\\&  1  no\n\\&.so /etc/passwd\n\
             \\&\\(aqx \\-y\\ez\\(aq\n.fi\n"
        );
    }
}

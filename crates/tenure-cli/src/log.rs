//! Logs for whoever looks for a fault: off unless asked for.

use std::ffi::OsString;
use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::exit::Exit;
use crate::failure::Failure;

const VARIABLE: &str = "TENURE_LOG";
const USUAL: &str = "tenure=debug";

/// Logs to stderr what `TENURE_LOG` says; with `verbose` and without that, what `tenure` does.
pub(crate) fn start(verbose: bool) -> Result<(), Failure> {
    let asked = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    if asked.is_none() && !verbose {
        return Ok(());
    }
    let colours = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty());
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_env_filter(filter(asked)?)
        .init();
    Ok(())
}

fn filter(asked: Option<OsString>) -> Result<EnvFilter, Failure> {
    let text = asked.unwrap_or_else(|| USUAL.into());
    EnvFilter::builder().parse(text.to_string_lossy()).map_err(|error| {
        Failure::caused(Exit::Usage, VARIABLE, &error).advise("write it like tenure=debug")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_filter_is_refused() {
        assert!(filter(None).is_ok());
        let failure = filter(Some("tenure=loud".into())).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().starts_with("TENURE_LOG: "), "{failure}");
    }
}

//! Logs: of a command only when they are asked for, of a server always.

use std::ffi::OsString;
use std::io::IsTerminal;

use tenure_server::config::{LogConfig, LogFormat};
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
    let filter = filter(asked.unwrap_or_else(|| USUAL.into()))?;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(has_colours())
        .with_env_filter(filter)
        .init();
    Ok(())
}

/// Logs to stderr what `TENURE_LOG` or the configuration says; without either, what matters.
pub(crate) fn serve(config: &LogConfig) -> Result<(), Failure> {
    let asked = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    let configured = config.level.clone().map_or_else(|| "info".into(), OsString::from);
    let filter = filter(asked.unwrap_or(configured))?;
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    match config.format {
        LogFormat::Text => log.with_ansi(has_colours()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

fn has_colours() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty())
}

fn filter(text: OsString) -> Result<EnvFilter, Failure> {
    EnvFilter::builder().parse(text.to_string_lossy()).map_err(|error| {
        Failure::caused(Exit::Usage, VARIABLE, &error).advise("write it like tenure=debug")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_filter_is_refused() {
        assert!(filter(USUAL.into()).is_ok());
        let failure = filter("tenure=loud".into()).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().starts_with("TENURE_LOG: "), "{failure}");
    }
}

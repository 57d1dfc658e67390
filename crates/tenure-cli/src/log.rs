//! Logs: of a command only when they are asked for, of a server always.

use std::ffi::OsString;
use std::fmt::Display;

use tenure_server::config::{Config, LogFormat};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::say;
use crate::style::Style;

const VARIABLE: &str = "TENURE_LOG";
const USUAL: &str = "tenure=debug";

/// Logs to stderr what `TENURE_LOG` says; with `verbose` and without that, what `tenure` does.
/// Where all is said in JSON, so is this.
pub(crate) fn start(verbose: bool) -> Result<(), Failure> {
    let asked = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    if asked.is_none() && !verbose {
        return Ok(());
    }
    let filter = filter(asked.unwrap_or_else(|| USUAL.into()))?;
    // Nobody to read it is no failure, and there is nobody to tell it to.
    let log = fmt().with_writer(std::io::stderr).log_internal_errors(false).with_env_filter(filter);
    if say::is_in_json() {
        log.json().flatten_event(true).init();
    } else {
        log.with_ansi(has_colours()).init();
    }
    Ok(())
}

/// What a server tells about itself, until this is dropped.
pub(crate) struct Telling {
    format: LogFormat,
    #[cfg(feature = "otel")]
    _exporter: Option<tenure_server::Exporter>,
}

impl Telling {
    /// Says how things stand. Whoever reads the log as JSON finds nothing else in it.
    pub(crate) fn progress(&self, what: &dyn Display) {
        match self.format {
            LogFormat::Text => say::progress(what),
            LogFormat::Json => tracing::info!("{what}"),
        }
    }

    /// Says that something failed.
    pub(crate) fn error(&self, what: &dyn Display) {
        match self.format {
            LogFormat::Text => say::error(what),
            LogFormat::Json => tracing::error!("{what}"),
        }
    }
}

/// Logs to stderr what `TENURE_LOG` or the configuration says; without either, what matters. Sends
/// spans where the configuration says so.
pub(crate) fn serve(config: &Config) -> Result<Telling, Failure> {
    let asked = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    let configured = config.log.level.clone().map_or_else(|| "info".into(), OsString::from);
    let filter = filter(asked.unwrap_or(configured))?;
    let text = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let format = config.log.format;
    let log = match format {
        LogFormat::Text => text.with_ansi(has_colours()).with_filter(filter).boxed(),
        LogFormat::Json => text.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(log);
    #[cfg(feature = "otel")]
    {
        let wrong = |failure: tenure_server::Failure| Failure::new(Exit::Usage, failure.message);
        let spans = config.trace.as_ref().map(tenure_server::export).transpose().map_err(wrong)?;
        let (spans, _exporter) = spans.unzip();
        subscriber.with(spans).init();
        Ok(Telling { format, _exporter })
    }
    #[cfg(not(feature = "otel"))]
    {
        if config.trace.is_some() {
            return Err(Failure::new(Exit::Usage, "this tenure was built without tracing"));
        }
        subscriber.init();
        Ok(Telling { format })
    }
}

fn has_colours() -> bool {
    Style::of(&std::io::stderr()).has_colours()
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

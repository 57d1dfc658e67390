//! Sends spans to a collector, by OpenTelemetry's protocol over HTTP.

use http::uri::Authority;
use http::{HeaderMap, Uri};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider as _; // tidy-allow: its name
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider as Tracers}; // tidy-allow: its name
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use super::TARGET;
use crate::config::{TraceConfig, Url};
use crate::failure::Failure;

/// Sends spans until it is dropped, and then the last of them.
#[derive(Debug)]
pub struct Exporter(Tracers);

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// A layer that sends this server's spans to the collector of the configuration.
///
/// # Errors
/// `Invalid` for a bad address or ratio.
pub fn export<S>(config: &TraceConfig) -> Result<(impl Layer<S> + use<S>, Exporter), Failure>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    if !(0.0..=1.0).contains(&config.ratio) {
        let text = format!("trace.ratio must be 0 to 1, it is {}", config.ratio);
        return Err(Failure::invalid(text));
    }
    let wrong = |error| Failure::invalid(format!("trace.otlp cannot be used: {error}"));
    // Its client asks for one even where nothing is encrypted. Another may have chosen already.
    drop(rustls::crypto::ring::default_provider().install_default()); // tidy-allow: its name
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint(&config.otlp)?)
        .build()
        .map_err(wrong)?;
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.ratio)));
    let tracers = Tracers::builder()
        .with_sampler(sampler)
        .with_resource(Resource::builder().with_service_name("tenure").build())
        .with_batch_exporter(exporter)
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracers.tracer("tenure"))
        .with_filter(Targets::new().with_target(TARGET, Level::DEBUG));
    Ok((layer, Exporter(tracers)))
}

/// Where spans are sent to. There is no place for a password in it: the client that sends them
/// would write it into the log.
fn endpoint(otlp: &Url) -> Result<String, Failure> {
    let address: Option<Uri> = otlp.0.parse().ok();
    let is_good = address.as_ref().is_some_and(|address| {
        let host = address.authority().map_or("", Authority::as_str);
        matches!(address.scheme_str(), Some("http" | "https")) && !host.contains('@')
    });
    if !is_good {
        let text = "trace.otlp must be like http://127.0.0.1:4318, without a user or a password";
        return Err(Failure::invalid(text));
    }
    Ok(format!("{}/v1/traces", otlp.0.trim_end_matches('/')))
}

/// Puts a span into the trace that the headers tell of (W3C trace context).
pub(super) fn join(span: &Span, headers: &HeaderMap) {
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // Without a subscriber for spans there is nothing to join.
    let _ = span.set_parent(parent);
}

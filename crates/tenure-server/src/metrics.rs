//! Numbers for Prometheus. No key is in a label.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tenure::{EventKind, LostReason};
use tenure_api::Code;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    call: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// A call of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Operation {
    pub(crate) store: Arc<str>,
    pub(crate) operation: &'static str,
    pub(crate) result: &'static str,
}

/// What is counted and measured.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<Call, Counter>,
    grants: Counter,
    pub(crate) handoffs: Counter,
    contended: Counter,
    timeouts: Counter,
    renewals: Counter,
    releases: Counter,
    forced: Counter,
    losses: Family<Reason, Counter>,
    waits: Histogram,
    holds: Histogram,
    pub(crate) operations: Family<Operation, Histogram>,
    now: Levels,
}

/// What is looked up whenever somebody asks.
#[derive(Clone, Debug, Default)]
struct Levels {
    kept: Gauge,
    streams: Gauge,
    waiters: Gauge,
    lines: Gauge,
    longest: Gauge,
}

/// How things stand at this moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) kept: usize,
    pub(crate) streams: usize,
    pub(crate) waiters: usize,
    pub(crate) lines: usize,
    pub(crate) longest: usize,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 20))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("tenure"),
            calls: Family::default(),
            grants: Counter::default(),
            handoffs: Counter::default(),
            contended: Counter::default(),
            timeouts: Counter::default(),
            renewals: Counter::default(),
            releases: Counter::default(),
            forced: Counter::default(),
            losses: Family::default(),
            waits: seconds(),
            holds: seconds(),
            operations: Family::new_with_constructor(seconds),
            now: Levels::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let all = &mut self.registry;
        all.register("calls", "Calls of the API, by result", self.calls.clone());
        all.register("grants", "Locks granted by this server", self.grants.clone());
        let help =
            "Locks granted to a request that waited when another of this server gave them back";
        all.register("handoffs", help, self.handoffs.clone());
        all.register("contended", "Requests that found their key held", self.contended.clone());
        all.register("timeouts", "Waits that were over before a grant", self.timeouts.clone());
        all.register("renewals", "Leases prolonged", self.renewals.clone());
        all.register("releases", "Locks given back", self.releases.clone());
        all.register("forced", "Locks taken away by force", self.forced.clone());
        all.register("losses", "Locks lost while held, by reason", self.losses.clone());
        let (wait, hold) = (self.waits.clone(), self.holds.clone());
        all.register_with_unit("wait", "From request to grant", Unit::Seconds, wait);
        all.register_with_unit("hold", "From grant to release or loss", Unit::Seconds, hold);
        let operations = self.operations.clone();
        let help = "Answers of the stores, by operation and result";
        all.register_with_unit("store", help, Unit::Seconds, operations);
        let Levels { kept, streams, waiters, lines, longest } = self.now.clone();
        all.register("kept_locks", "Locks this server renews for clients", kept);
        all.register("open_streams", "Streams that hold locks or tell events", streams);
        all.register("waiters", "Requests that wait in this server", waiters);
        all.register("lines", "Keys that requests wait for in this server", lines);
        all.register("longest_line", "The most requests that wait for one key", longest);
    }

    pub(crate) fn count(&self, call: &'static str, code: Option<Code>) {
        let result = code.map_or("done", Code::name);
        self.calls.get_or_create(&Call { call, result }).inc();
    }

    /// Counts one thing that happened.
    pub(crate) fn happened(&self, kind: &EventKind) {
        match kind {
            EventKind::Granted { waited, .. } => {
                self.grants.inc();
                if let Some(waited) = waited {
                    self.waits.observe(waited.as_secs_f64());
                }
            }
            EventKind::Contended { .. } => {
                self.contended.inc();
            }
            EventKind::TimedOut { .. } => {
                self.timeouts.inc();
            }
            EventKind::Renewed { .. } => {
                self.renewals.inc();
            }
            EventKind::Lost { reason, held, .. } => {
                let reason = match reason {
                    LostReason::Refused => "refused",
                    LostReason::Expired => "expired",
                    LostReason::MaxHold => "max_hold",
                    _ => "other",
                };
                self.losses.get_or_create(&Reason { reason }).inc();
                if let Some(held) = held {
                    self.holds.observe(held.as_secs_f64());
                }
            }
            EventKind::Released { held, .. } => {
                self.releases.inc();
                if let Some(held) = held {
                    self.holds.observe(held.as_secs_f64());
                }
            }
            EventKind::Forced { .. } => {
                self.forced.inc();
            }
            _ => {}
        }
    }

    /// All of it, in Prometheus' text form.
    pub(crate) fn text(&self, standing: Standing) -> Result<String, std::fmt::Error> {
        let level = |gauge: &Gauge, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        level(&self.now.kept, standing.kept);
        level(&self.now.streams, standing.streams);
        level(&self.now.waiters, standing.waiters);
        level(&self.now.lines, standing.lines);
        level(&self.now.longest, standing.longest);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

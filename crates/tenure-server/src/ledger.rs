//! What is remembered of every call: a line in the audit log and a number in the metrics.

use std::sync::Arc;

use tenure::clock::Clock;
use tenure_api::Code;

use crate::access::Caller;
use crate::audit::{Audit, Deed};
use crate::failure::Failure;
use crate::metrics::Metrics;

#[derive(Debug)]
pub(crate) struct Ledger {
    audit: Option<Audit>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
}

impl Ledger {
    pub(crate) fn new(audit: Option<Audit>, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Self {
        Self { audit, metrics, clock }
    }

    /// Writes down what was done or refused.
    pub(crate) fn record(&self, caller: &Caller, deed: &Deed<'_>) {
        self.metrics.count(deed.call, deed.code);
        if let Err(error) = self.write(caller, deed) {
            tracing::error!(%error, call = deed.call, "the audit log cannot be written");
        }
    }

    /// Whether a call is written down, and not only counted.
    pub(crate) fn writes(&self, call: &str) -> bool {
        self.audit.as_ref().is_some_and(|audit| audit.wants(call))
    }

    /// Counts a call that is not written down.
    pub(crate) fn count(&self, call: &'static str, code: Option<Code>) {
        self.metrics.count(call, code);
    }

    /// Writes down what is about to be done. What cannot be written down is not done.
    pub(crate) fn announce(&self, caller: &Caller, deed: &Deed<'_>) -> Result<(), Failure> {
        self.write(caller, deed).map_err(|error| {
            tracing::error!(%error, call = deed.call, "the audit log cannot be written");
            Failure::new(Code::Internal, "the audit log cannot be written, so nothing was done")
        })
    }

    fn write(&self, caller: &Caller, deed: &Deed<'_>) -> std::io::Result<()> {
        match &self.audit {
            Some(audit) if audit.wants(deed.call) => audit.write(self.clock.wall(), caller, deed),
            _ => Ok(()),
        }
    }
}

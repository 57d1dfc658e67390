//! A set-up that must fail: a Redis that keeps nothing, killed and started again.
//!
//! It says itself that it is of class E. A harness that finds nothing wrong with it finds nothing.

use std::time::Duration;

use anyhow::Result;
use tenure::store::Class;

use crate::fault::Kind;
use crate::report::letter;
use crate::run::{Order, Outcome, run};
use crate::subject::VOLATILE;

/// What became of it.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) outcome: Outcome,
}

impl Control {
    /// Whether it failed as it must: it was found out, and had said so itself.
    pub(crate) fn is_good(&self) -> bool {
        self.outcome.class == Class::Efficiency && !self.outcome.judgement.broken().is_empty()
    }

    /// One sentence about it.
    pub(crate) fn text(&self) -> String {
        let Outcome { class, version, judgement, .. } = &self.outcome;
        let found = judgement.broken();
        let found: Vec<String> = found.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let how = if self.is_good() { "failed as it must" } else { "was NOT found out" };
        format!(
            "{version} without persistence, killed and started again, says class {} and {how}: {}",
            letter(*class),
            if found.is_empty() { "nothing found".to_owned() } else { found.join(", ") }
        )
    }
}

/// Tries it out.
pub(crate) async fn control(length: Duration, seed: u64) -> Result<Control> {
    let order = Order::new(VOLATILE, length, seed);
    let kinds = vec![Kind::ServerKill, Kind::WorkerKill, Kind::WorkerPause];
    Ok(Control { outcome: run(Order { kinds, ..order }).await? })
}

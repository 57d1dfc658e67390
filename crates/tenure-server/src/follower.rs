//! Counts what happens to the locks of one namespace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tenure::{Event, EventKind, Key, Observer};

use crate::metrics::Metrics;

/// How many keys are remembered that were given back.
const GIVEN_BACK_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct Follower {
    metrics: Arc<Metrics>,
    given_back: Mutex<GivenBack>,
}

/// When keys were given back that nobody was granted since.
#[derive(Debug, Default)]
struct GivenBack(HashMap<Key, SystemTime>);

impl Follower {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, given_back: Mutex::default() }
    }
}

impl Observer for Follower {
    fn saw(&self, event: &Event) {
        self.metrics.happened(&event.kind);
        let mut given_back = self.given_back.lock().unwrap_or_else(PoisonError::into_inner);
        if given_back.handed_on(event) {
            self.metrics.handoffs.inc();
        }
    }
}

impl GivenBack {
    /// Whether this is the grant of such a key to someone who had waited for it.
    fn handed_on(&mut self, event: &Event) -> bool {
        match event.kind {
            EventKind::Released { .. } => {
                // Most are never asked for again, and a hand-off takes no time: hardly one is
                // missed.
                if self.0.len() >= GIVEN_BACK_MAX {
                    self.0.clear();
                }
                self.0.insert(event.key.clone(), event.at);
                false
            }
            EventKind::Granted { waited, .. } => {
                let asked = waited.and_then(|waited| event.at.checked_sub(waited));
                self.0.remove(&event.key).is_some_and(|back| asked.is_some_and(|at| at < back))
            }
            _ => false,
        }
    }
}

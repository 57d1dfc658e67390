//! What this store last saw of the leases that it granted or prolonged.
//!
//! It spares a read before a renewal or a release. Every use of it is verified by etcd, so it may
//! be out of date and may forget.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::spares::EtcdLease;
use crate::clock::Moment;
use crate::key::Key;
use crate::rule::Record;

const SWEEP_FROM: usize = 1024;

/// A lease of ours as it stands in etcd.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) record: Record,
    /// Of the key's last change: as long as it is the same, so is all the rest.
    pub(super) revision: i64,
    pub(super) lease: EtcdLease,
}

#[derive(Debug, Default)]
pub(super) struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    standing: HashMap<Key, Standing>,
    sweep_at: usize,
}

impl Known {
    pub(super) fn get(&self, key: &Key) -> Option<Standing> {
        self.lock().standing.get(key).cloned()
    }

    pub(super) fn note(&self, key: &Key, standing: Standing, now: Moment) {
        let mut state = self.lock();
        state.standing.insert(key.clone(), standing);
        // Those that were never released are cleared away in time with those that come.
        if state.standing.len() > state.sweep_at.max(SWEEP_FROM) {
            state.standing.retain(|_, standing| standing.lease.until > now);
            state.sweep_at = state.standing.len() * 2;
        }
    }

    pub(super) fn forget(&self, key: &Key) {
        self.lock().standing.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

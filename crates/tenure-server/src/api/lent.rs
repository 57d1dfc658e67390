//! The locks that clients renew themselves: they count for as long as they last.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure::Fence;
use tenure::clock::Moment;

use super::Place;
use crate::quota::Ticket;

/// With so many, those that are over are forgotten.
const SWEEP_MIN: usize = 1024;

/// What this server has granted and does not keep. A renewal or an unlock that goes by way of
/// another server is not known here.
#[derive(Debug, Default)]
pub(super) struct Lent(Mutex<Loans>);

#[derive(Debug, Default)]
struct Loans {
    by_place: HashMap<Place, Loan>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Loan {
    fence: Fence,
    until: Moment,
    _ticket: Ticket,
}

impl Loans {
    fn sweep(&mut self, now: Moment) {
        self.by_place.retain(|_, loan| loan.until > now);
        self.sweep_at = SWEEP_MIN.max(2 * self.by_place.len());
    }
}

impl Lent {
    /// Counts a lock until then.
    pub(super) fn keep(
        &self,
        place: Place,
        fence: Fence,
        now: Moment,
        until: Moment,
        ticket: Ticket,
    ) {
        let mut loans = self.loans();
        if loans.by_place.len() >= loans.sweep_at.max(SWEEP_MIN) {
            loans.sweep(now);
        }
        loans.by_place.insert(place, Loan { fence, until, _ticket: ticket });
    }

    /// It goes on until then.
    pub(super) fn prolong(&self, place: &Place, fence: Fence, until: Moment) {
        if let Some(loan) = self.loans().by_place.get_mut(place)
            && loan.fence == fence
        {
            loan.until = loan.until.max(until);
        }
    }

    /// It was given back or taken away.
    pub(super) fn end(&self, place: &Place) {
        self.loans().by_place.remove(place);
    }

    /// Forgets those that are over.
    pub(super) fn sweep(&self, now: Moment) {
        self.loans().sweep(now);
    }

    fn loans(&self) -> MutexGuard<'_, Loans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! How much one client may have at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_api::Code;

use crate::failure::Failure;

/// Counts of one kind of thing by client.
#[derive(Debug)]
pub(crate) struct Quota {
    what: &'static str,
    max: usize,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts(Mutex<HashMap<String, usize>>);

impl Counts {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Quota {
    pub(crate) fn new(what: &'static str, max: usize) -> Self {
        Self { what, max, counts: Arc::default() }
    }

    /// One more for this client, until the ticket is dropped.
    pub(crate) fn take(&self, client: String) -> Result<Ticket, Failure> {
        let mut counts = self.counts.lock();
        let count = counts.entry(client.clone()).or_default();
        if *count >= self.max {
            let text = format!("{client} has {count} {}, which is the limit", self.what);
            return Err(Failure::new(Code::LimitReached, text));
        }
        *count += 1;
        Ok(Ticket { client, counts: Arc::clone(&self.counts) })
    }

    /// How many there are in all.
    pub(crate) fn total(&self) -> usize {
        self.counts.lock().values().sum()
    }
}

/// One of those that are counted.
#[derive(Debug)]
pub(crate) struct Ticket {
    client: String,
    counts: Arc<Counts>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_own_count_and_gives_it_back() {
        let quota = Quota::new("locks", 1);
        let one = quota.take("a".into()).unwrap();
        assert_eq!(quota.take("a".into()).unwrap_err().code, Code::LimitReached);
        let _other = quota.take("b".into()).unwrap();
        drop(one);
        assert!(quota.take("a".into()).is_ok());
    }
}

//! Waits for tests: bounded, and for a state rather than for a time.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use anyhow::Result;
use tenure::clock::{Clock, SystemClock, within};

/// The time for something ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InVain {
    what: String,
    limit: Duration,
}

impl InVain {
    /// It was not there within `limit`.
    #[must_use]
    pub fn new(what: &str, limit: Duration) -> Self {
        Self { what: what.to_owned(), limit }
    }
}

impl fmt::Display for InVain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waited {:?} in vain for: {}", self.limit, self.what)
    }
}

impl std::error::Error for InVain {}

/// Sleeps.
pub async fn sleep(time: Duration) {
    SystemClock.sleep_until(SystemClock.now() + time).await;
}

/// Asks `condition` until it says yes.
///
/// # Errors
/// [`InVain`] when it has not within `limit`.
pub async fn until<F>(what: &str, limit: Duration, mut condition: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let deadline = SystemClock.now() + limit;
    loop {
        if condition().await? {
            return Ok(());
        }
        if SystemClock.now() >= deadline {
            return Err(InVain::new(what, limit).into());
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Runs `work` for at most `limit`.
///
/// # Errors
/// [`InVain`] when it is not done by then.
pub async fn bounded<T>(what: &str, limit: Duration, work: impl Future<Output = T>) -> Result<T> {
    within(&SystemClock, limit, work).await.map_err(|_| InVain::new(what, limit).into())
}

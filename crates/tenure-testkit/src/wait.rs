//! Waits for tests: bounded, and for a state rather than for a time.

use std::future::Future;
use std::time::Duration;

use anyhow::{Result, bail};
use tenure::clock::{Clock, SystemClock, within};

/// Sleeps.
pub async fn sleep(time: Duration) {
    SystemClock.sleep_until(SystemClock.now() + time).await;
}

/// Asks `condition` until it says yes.
///
/// # Errors
/// When it has not within `limit`; the text says what was waited for.
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
            bail!("waited {limit:?} in vain for: {what}");
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Runs `work` for at most `limit`.
///
/// # Errors
/// When it is not done by then; the text says what was waited for.
pub async fn bounded<T>(what: &str, limit: Duration, work: impl Future<Output = T>) -> Result<T> {
    match within(&SystemClock, limit, work).await {
        Ok(value) => Ok(value),
        Err(_) => bail!("waited {limit:?} in vain for: {what}"),
    }
}

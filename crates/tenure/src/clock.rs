//! Time: the one clock that leases are measured with, and the one place that reads it.

use std::fmt::Debug;
use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

/// A point on one clock, in nanoseconds since that clock's own zero.
///
/// Two clocks have different zeros, so a `Moment` never leaves the process (or, for `file:`, the
/// machine) that read it. What travels is always a [`Duration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment that many nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment, moved back; the clock's zero at the least.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A pending sleep.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the library takes time from.
///
/// # Contract
/// `now` never goes back and goes on while the machine sleeps. `wall` is for people and is never
/// compared. `sleep_until` returns at or after its moment as `now` tells it, and is never early.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Moment;

    /// The time of day, to show to people.
    fn wall(&self) -> SystemTime;

    /// Sleeps until `now` has reached `at`.
    fn sleep_until(&self, at: Moment) -> Sleep;
}

/// The machine's boot clock (`CLOCK_BOOTTIME` on Linux), which counts suspend.
///
/// Timers of the operating system stop during suspend, so a long sleep is cut into naps of at most
/// a second and the clock is read again after each.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

const NAP: Duration = Duration::from_secs(1);

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        #[cfg(target_os = "linux")]
        const ID: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const ID: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

        let time = rustix::time::clock_gettime(ID);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    #[allow(clippy::disallowed_methods)]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    #[allow(clippy::disallowed_methods)]
    fn sleep_until(&self, at: Moment) -> Sleep {
        Box::pin(async move {
            loop {
                let left = at.since(Self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(NAP)).await;
            }
        })
    }
}

/// The time limit passed before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Runs `work` for at most `limit` on `clock`; `work` is dropped when the limit passes.
///
/// # Errors
/// [`Elapsed`] when the limit passed first.
pub async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut work = std::pin::pin!(work);
    // Most answers of an in-process store are there at once; only the others pay for a timer.
    let first = std::future::poll_fn(|cx: &mut Context<'_>| {
        Poll::Ready(match work.as_mut().poll(cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await;
    if let Some(value) = first {
        return Ok(value);
    }
    let alarm = clock.sleep_until(clock.now() + limit);
    tokio::select! {
        biased;
        value = work => Ok(value),
        () = alarm => Err(Elapsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_saturate() {
        let early = Moment::from_nanos(5);
        assert_eq!(early.since(early + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!((early + Duration::MAX).as_nanos(), u64::MAX);
        assert_eq!(early.before(Duration::from_secs(1)).as_nanos(), 0);
    }

    #[tokio::test]
    async fn a_sleep_is_never_early() {
        let at = SystemClock.now() + Duration::from_millis(20);
        SystemClock.sleep_until(at).await;
        assert!(SystemClock.now() >= at);
    }

    #[tokio::test]
    async fn work_over_its_limit_is_cut() {
        let limit = Duration::from_millis(5);
        let cut = within(&SystemClock, limit, std::future::pending::<()>()).await;
        assert_eq!(cut, Err(Elapsed));
        assert_eq!(within(&SystemClock, limit, async { 7 }).await, Ok(7));
    }
}

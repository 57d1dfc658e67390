//! A boot clock that stands still while its process is stopped: a known bug, of those that measure
//! leases with a clock that does not count suspend.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tenure::clock::{Clock, Moment, Sleep, SystemClock};

/// How often it is read at the least, while its process runs.
const TICK: Duration = Duration::from_millis(50);

/// Who has not read it for so long was stopped.
const STOPPED: Duration = Duration::from_millis(400);

/// The machine's boot clock, less what this process was stopped for.
#[derive(Clone, Debug)]
pub(crate) struct StandingClock(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug)]
struct State {
    read: Moment,
    missed: Duration,
}

impl State {
    /// What it shows when the machine's own shows `real`.
    fn at(&mut self, real: Moment) -> Moment {
        let since = real.since(self.read);
        if since >= STOPPED {
            self.missed += since;
        }
        self.read = self.read.max(real);
        self.read.before(self.missed)
    }
}

impl StandingClock {
    /// A clock that is right now. It has to be made within a runtime, which reads it all the time.
    pub(crate) fn start() -> Self {
        let clock =
            Self(Arc::new(Mutex::new(State { read: SystemClock.now(), missed: Duration::ZERO })));
        let read = clock.clone();
        tokio::spawn(async move {
            loop {
                SystemClock.sleep_until(SystemClock.now() + TICK).await;
                let _ = read.now();
            }
        });
        clock
    }
}

impl Clock for StandingClock {
    fn now(&self) -> Moment {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).at(SystemClock.now())
    }

    fn wall(&self) -> SystemTime {
        SystemClock.wall()
    }

    fn sleep_until(&self, at: Moment) -> Sleep {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let left = at.since(clock.now());
                if left.is_zero() {
                    return;
                }
                SystemClock.sleep_until(SystemClock.now() + left).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_does_not_count() {
        let start = Moment::from_nanos(9_000_000_000);
        let mut state = State { read: start, missed: Duration::ZERO };
        let mut shown = |ms| state.at(start + Duration::from_millis(ms)).since(start).as_millis();
        assert_eq!((shown(300), shown(3_300), shown(3_500)), (300, 300, 500));
    }
}

//! Simulated time: one timeline, and for every node a clock of its own on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tenure::clock::{Clock, Moment, Sleep};
use tokio::sync::Notify;

/// True time of the run. It stands still while anything can run and then jumps to the next timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline(tokio::time::Instant);

impl Timeline {
    /// A timeline that begins now. Only within a runtime with paused time.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    /// Nanoseconds since the beginning.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn nanos(self) -> u64 {
        nanos(tokio::time::Instant::now().duration_since(self.0))
    }

    /// Lets true time pass.
    #[allow(clippy::disallowed_methods)]
    pub(crate) async fn sleep(self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    /// Whether `work` ends within `span` of true time.
    pub(crate) async fn within(self, span: Duration, work: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = work => true,
            () = self.sleep(span) => false,
        }
    }
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A value that tasks wait for.
///
/// Unlike `tokio::sync::watch`, which draws lots, it wakes those who wait in the order in which
/// they came: the same seed must be the same run.
#[derive(Debug)]
pub(crate) struct Level<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Level<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(crate) fn get(&self) -> T {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets it; returns what it was.
    pub(crate) fn set(&self, value: T) -> T {
        let mut standing = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *standing, value);
        drop(standing);
        self.changed.notify_waiters();
        before
    }

    pub(crate) async fn wait_for(&self, is_reached: impl Fn(T) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_reached(self.get()) {
                return;
            }
            changed.await;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Running,
    Stopped,
    Dead,
}

/// One process: it runs, is stopped (SIGSTOP), or has died and never runs again.
#[derive(Debug)]
pub(crate) struct Node {
    timeline: Timeline,
    run: Level<Run>,
    stops: AtomicU64,
    stopped_at: AtomicU64,
    stopped_for: AtomicU64,
}

impl Node {
    pub(crate) fn new(timeline: Timeline) -> Self {
        Self {
            timeline,
            run: Level::new(Run::Running),
            stops: AtomicU64::new(0),
            stopped_at: AtomicU64::new(0),
            stopped_for: AtomicU64::new(0),
        }
    }

    fn state(&self) -> Run {
        self.run.get()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state() == Run::Running
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state() == Run::Dead
    }

    /// How often it was stopped so far.
    pub(crate) fn stops(&self) -> u64 {
        self.stops.load(Ordering::Relaxed)
    }

    /// Stops it; false when it was not running.
    pub(crate) fn stop(&self) -> bool {
        if !self.is_running() {
            return false;
        }
        self.stops.fetch_add(1, Ordering::Relaxed);
        self.stopped_at.store(self.timeline.nanos(), Ordering::Relaxed);
        self.run.set(Run::Stopped);
        true
    }

    pub(crate) fn resume(&self) {
        if self.state() == Run::Stopped {
            let span = self.timeline.nanos() - self.stopped_at.load(Ordering::Relaxed);
            self.stopped_for.fetch_add(span, Ordering::Relaxed);
            self.run.set(Run::Running);
        }
    }

    /// Ends it for good; false when it was dead already.
    pub(crate) fn kill(&self) -> bool {
        self.run.set(Run::Dead) != Run::Dead
    }

    /// Returns as soon as it runs; never, once it is dead.
    pub(crate) async fn awake(&self) {
        self.run.wait_for(|run| run == Run::Running).await;
    }

    /// Returns when it is dead.
    pub(crate) async fn died(&self) {
        self.run.wait_for(|run| run == Run::Dead).await;
    }

    /// For how long it has been stopped in all.
    fn stopped_nanos(&self) -> u64 {
        let before = self.stopped_for.load(Ordering::Relaxed);
        match self.state() {
            Run::Stopped => {
                before + (self.timeline.nanos() - self.stopped_at.load(Ordering::Relaxed))
            }
            Run::Running | Run::Dead => before,
        }
    }
}

/// How a clock differs from true time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skew {
    /// What it shows at the beginning.
    pub(crate) zero: Duration,
    /// How much faster than true time it runs, in parts per million.
    pub(crate) ppm: i64,
    /// Whether it goes on while its node is stopped, as a boot clock does.
    pub(crate) counts_stops: bool,
}

/// The clock of one node: its own zero, its own rate, and it wakes no one while the node is
/// stopped.
#[derive(Clone, Debug)]
pub(crate) struct SimClock {
    timeline: Timeline,
    node: Arc<Node>,
    skew: Skew,
    stepped: Arc<AtomicU64>,
}

impl SimClock {
    pub(crate) fn new(timeline: Timeline, node: Arc<Node>, skew: Skew) -> Self {
        Self { timeline, node, skew, stepped: Arc::default() }
    }

    /// What it would show if it had never been set.
    pub(crate) fn steady(&self) -> Moment {
        let mut passed = self.timeline.nanos();
        if !self.skew.counts_stops {
            passed = passed.saturating_sub(self.node.stopped_nanos());
        }
        let ahead = i64::try_from(passed / 1000).unwrap_or(0) * self.skew.ppm / 1000;
        Moment::from_nanos(nanos(self.skew.zero) + passed.saturating_add_signed(ahead))
    }

    /// Sets it forward, as an administrator does to a wall clock.
    pub(crate) fn set_forward(&self, by: Duration) {
        self.stepped.fetch_add(nanos(by), Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        self.steady() + Duration::from_nanos(self.stepped.load(Ordering::Relaxed))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.now().as_nanos())
    }

    #[allow(clippy::disallowed_methods)]
    fn sleep_until(&self, at: Moment) -> Sleep {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let left = at.since(clock.now());
                if left.is_zero() && clock.node.is_running() {
                    return;
                }
                if left.is_zero() {
                    clock.node.awake().await;
                } else {
                    tokio::time::sleep(left).await;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stopped_node_sleeps_on_while_its_clock_goes_on() {
        let timeline = Timeline::start();
        let node = Arc::new(Node::new(timeline));
        let skew = Skew { zero: Duration::from_secs(5), ppm: 4000, counts_stops: true };
        let clock = SimClock::new(timeline, Arc::clone(&node), skew);
        assert!(node.stop());
        let began = clock.now();
        let sleeper = tokio::spawn(clock.sleep_until(began + Duration::from_secs(1)));
        timeline.sleep(Duration::from_secs(10)).await;
        assert!(!sleeper.is_finished());
        assert_eq!(clock.now().since(began), Duration::from_millis(10_040));
        node.resume();
        sleeper.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_stops_with_its_node_hides_the_stop() {
        let timeline = Timeline::start();
        let node = Arc::new(Node::new(timeline));
        let skew = Skew { zero: Duration::ZERO, ppm: 0, counts_stops: false };
        let clock = SimClock::new(timeline, Arc::clone(&node), skew);
        node.stop();
        timeline.sleep(Duration::from_secs(10)).await;
        node.resume();
        assert_eq!(clock.now().as_nanos(), 0);
    }
}

//! One line per key in this process: only its head asks the store.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::lease::Status;

/// How often whoever stands in line looks at how it moves, at the most.
const LOOK_AROUND: Duration = Duration::from_secs(1);

type Lines = HashMap<Key, Line>;

#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Lines>);

/// How many wait in one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLengths {
    /// Keys that someone waits for or is about to ask for.
    pub lines: usize,
    /// All who do.
    pub waiters: usize,
    /// The most for one key.
    pub longest: usize,
}

#[derive(Debug, Default)]
struct Line {
    next_ticket: u64,
    // Ordered, so that the head is the first and one that leaves from the middle costs little.
    // Whoever was first from the start needs no signal.
    places: BTreeMap<u64, Option<Arc<Notify>>>,
    told: Option<(Moment, Told)>,
}

/// What the head of a line was told last. The others of the line have nothing else to go by.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// Another holds the key.
    Held(Status),
    /// This process was granted it, and may have given it back.
    Ours(Status),
    /// The store failed.
    Failed(Error),
}

impl Told {
    fn held_by(&self) -> Option<&Status> {
        match self {
            Self::Held(status) | Self::Ours(status) => Some(status),
            Self::Failed(_) => None,
        }
    }

    /// Whether one that has asked since `since` can go by what was told at `at`. A head that comes
    /// after may not be answered at all.
    fn is_still_so(&self, at: Moment, since: Moment, now: Moment) -> bool {
        match self {
            Self::Held(status) => at >= since || now < at + status.remaining,
            Self::Ours(_) => at >= since,
            Self::Failed(_) => true,
        }
    }
}

impl Line {
    fn is_headed_by(&self, ticket: u64) -> bool {
        self.places.first_key_value().is_some_and(|(first, _)| *first == ticket)
    }
}

impl Queue {
    /// Takes a place at the end of the line.
    pub(crate) fn join(self: &Arc<Self>, key: &Key, places_max: usize) -> Result<Place> {
        let mut lines = self.lines();
        let line = lines.entry(key.clone()).or_default();
        if line.places.len() >= places_max {
            return Err(Error::new(
                ErrorKind::Held,
                format!("limits.waiters_per_key is {places_max}, and as many wait already"),
            ));
        }
        let ticket = line.next_ticket;
        line.next_ticket += 1;
        let turn = (!line.places.is_empty()).then(|| Arc::new(Notify::new()));
        line.places.insert(ticket, turn.clone());
        Ok(Place { queue: Arc::clone(self), key: key.clone(), ticket, turn })
    }

    /// Tells whoever stands in line for the key what its head was told.
    pub(crate) fn tell(&self, key: &Key, at: Moment, told: Told) {
        if let Some(line) = self.lines().get_mut(key) {
            line.told = Some((at, told));
        }
    }

    /// How many stand in line for the key.
    pub(crate) fn len(&self, key: &str) -> usize {
        self.lines().get(key).map_or(0, |line| line.places.len())
    }

    pub(crate) fn lengths(&self) -> QueueLengths {
        let lines = self.lines();
        let lengths = lines.values().map(|line| line.places.len());
        QueueLengths {
            lines: lines.len(),
            waiters: lengths.clone().sum(),
            longest: lengths.max().unwrap_or(0),
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in line. Dropping it leaves the line and, at its head, calls the next.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    key: Key,
    ticket: u64,
    turn: Option<Arc<Notify>>,
}

impl Place {
    /// Returns when this place is the head of its line.
    pub(crate) async fn turn(&self) {
        if let Some(turn) = &self.turn {
            while !self.is_head() {
                turn.notified().await;
            }
        }
    }

    pub(crate) fn is_head(&self) -> bool {
        let lines = self.queue.lines();
        lines.get(&self.key).is_none_or(|line| line.is_headed_by(self.ticket))
    }

    /// Calls `show` with how the line stands, and again when it has moved: not with every step of
    /// it, because then a long line would be busy with nothing else.
    pub(crate) async fn moves(
        &self,
        clock: &dyn Clock,
        show: impl Fn(usize, Option<Status>),
    ) -> Infallible {
        let mut shown = None;
        loop {
            let (ahead, held_by) = self.look();
            let now = Some((ahead, held_by.as_ref().map(|status| status.fence)));
            if shown != now {
                show(ahead, held_by);
                shown = now;
            }
            let pause = LOOK_AROUND + Duration::from_millis(ahead as u64);
            clock.sleep_until(clock.now() + pause).await;
        }
    }

    /// How many stand before this place, and who holds the key, as their head was told.
    fn look(&self) -> (usize, Option<Status>) {
        let lines = self.queue.lines();
        let Some(line) = lines.get(&self.key) else { return (0, None) };
        let held_by = line.told.as_ref().and_then(|(_, told)| told.held_by());
        (line.places.range(..self.ticket).count(), held_by.cloned())
    }

    /// What the head was told, where one that has asked since then can go by it.
    pub(crate) fn heard(&self, since: Moment, now: Moment) -> Option<Told> {
        let lines = self.queue.lines();
        let (at, told) = lines.get(&self.key)?.told.as_ref()?;
        told.is_still_so(*at, since, now).then(|| told.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.queue.lines();
        let Some(line) = lines.get_mut(&self.key) else { return };
        let was_head = line.is_headed_by(self.ticket);
        line.places.remove(&self.ticket);
        if line.places.is_empty() {
            lines.remove(&self.key);
        } else if was_head && let Some((_, Some(next))) = line.places.first_key_value() {
            next.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn first_come_first_served_also_when_one_leaves_from_the_middle() {
        let queue = Arc::new(Queue::default());
        let key = Key::new("k").unwrap();
        let [a, b, c] = [(); 3].map(|()| queue.join(&key, 10).unwrap());
        assert_eq!([&a, &b, &c].map(|place| place.look().0), [0, 1, 2]);
        a.turn().await;
        drop(b);
        assert_eq!(c.look().0, 1);
        drop(a);
        c.turn().await;
        drop(c);
        assert!(queue.lines().is_empty());
    }

    #[test]
    fn a_full_line_says_its_limit() {
        let queue = Arc::new(Queue::default());
        let key = Key::new("k").unwrap();
        let _head = queue.join(&key, 1).unwrap();
        let error = queue.join(&key, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Held);
        assert!(error.to_string().contains("waiters_per_key is 1"), "{error}");
    }
}

//! One run's world: the server, the network's weather, the seats of the clients, and the checker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Plan;
use super::check::{Believer, Checker, Phase};
use super::clock::{Level, Node, SimClock, Skew, Timeline};
use super::counters::Count;
use super::dice::Dice;
use super::message::{Envelope, Reply, attempt_number, key_number};
use super::mutant::Mutant;
use super::server::{Server, fence_of, frees};
use super::trace::Step;

/// How many clients fight for the keys.
pub(crate) const SEATS: usize = 3;

/// Clocks differ by less than the margin of 1 %: this much, in parts per million, either way.
const PPM_MAX: u64 = 4_000;

/// What the network is like at the moment; shares are of a thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) refused: u64,
    pub(crate) slow: u64,
    pub(crate) delay_ms_max: u64,
}

impl Weather {
    pub(crate) const CALM: Self =
        Self { lost: 0, duplicated: 0, refused: 0, slow: 0, delay_ms_max: 5 };
}

/// A client's place: the process that sits there now, and its cable.
#[derive(Clone, Debug)]
struct Seat {
    node: Arc<Node>,
    is_cut: bool,
    last_message: u64,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) timeline: Timeline,
    pub(crate) dice: Arc<Dice>,
    server: Mutex<Server>,
    checker: Mutex<Checker>,
    weather: Mutex<Weather>,
    seats: Mutex<Vec<Seat>>,
    healed: Level<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan) -> Self {
        let timeline = Timeline::start();
        let dice = Arc::new(Dice::new(seed));
        let node = Arc::new(Node::new(timeline));
        let skew = Skew { zero: Duration::from_secs(1000), ppm: ppm(&dice), counts_stops: true };
        let clock = SimClock::new(timeline, Arc::clone(&node), skew);
        let server = Server::new(clock, node, plan.mutant);
        let seat = |_| Seat { node: Arc::new(Node::new(timeline)), is_cut: false, last_message: 0 };
        Self {
            timeline,
            dice,
            server: Mutex::new(server),
            checker: Mutex::new(Checker::new(plan.trace)),
            weather: Mutex::new(Weather::CALM),
            seats: Mutex::new((0..SEATS + 1).map(seat).collect()),
            healed: Level::new(false),
            plan,
        }
    }

    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        lock(&self.server)
    }

    /// The checker, with its watch set.
    pub(crate) fn checker(&self) -> MutexGuard<'_, Checker> {
        let mut checker = lock(&self.checker);
        checker.now = self.timeline.nanos();
        checker
    }

    pub(crate) fn count(&self, count: Count) {
        self.checker().count(count);
    }

    pub(crate) fn step(&self, step: Step) {
        self.checker().step(step);
    }

    pub(crate) fn violation(&self, text: &str) {
        self.checker().violation(text);
    }

    // The network.

    pub(crate) fn weather(&self) -> Weather {
        *lock(&self.weather)
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        *lock(&self.weather) = weather;
    }

    pub(crate) fn is_cut(&self, seat: usize) -> bool {
        lock(&self.seats)[seat].is_cut
    }

    pub(crate) fn set_cut(&self, seat: usize, is_cut: bool) {
        lock(&self.seats)[seat].is_cut = is_cut;
    }

    /// The process that sits there now.
    pub(crate) fn node(&self, seat: usize) -> Arc<Node> {
        Arc::clone(&lock(&self.seats)[seat].node)
    }

    /// A new process on that seat, with a clock of its own.
    pub(crate) fn sit_down(&self, seat: usize) -> (Arc<Node>, SimClock) {
        let node = Arc::new(Node::new(self.timeline));
        lock(&self.seats)[seat].node = Arc::clone(&node);
        self.server().connect(seat);
        let slow = self.plan.mutant == Some(Mutant::SlowClock);
        let skew = Skew {
            zero: Duration::from_millis(self.dice.below(1_000_000)),
            ppm: if slow { -30_000 } else { ppm(&self.dice) },
            counts_stops: self.plan.mutant != Some(Mutant::ClockStopsWithProcess),
        };
        let clock = SimClock::new(self.timeline, Arc::clone(&node), skew);
        (node, clock)
    }

    // The server.

    /// The server decides a request, if it is there; and everything is checked.
    pub(crate) fn apply(&self, envelope: &Envelope) -> Option<(Reply, bool)> {
        let mut server = self.server();
        if !server.is_up {
            return None;
        }
        let applied = server.apply(envelope.seat, &envelope.request);
        let mut checker = self.checker();
        let key = envelope.request.key();
        checker.step(Step::Applied {
            message: envelope.message,
            verb: envelope.request.verb(),
            key: key.map_or(0, key_number),
            fence: fence_of(&applied.reply),
            twice: envelope.twice,
        });
        if let Some(seat) = lock(&self.seats).get_mut(envelope.seat) {
            if envelope.message < seat.last_message && !envelope.twice {
                checker.count(Count::RequestReordered);
            }
            seat.last_message = seat.last_message.max(envelope.message);
        }
        checker.applied(envelope, &applied);
        if let Some(key) = key.filter(|_| frees(&applied.reply)) {
            let no_poll = self.plan.mutant == Some(Mutant::NoFallbackPoll);
            for seat in 0..SEATS {
                if no_poll || (!self.is_healed() && self.dice.chance(200)) {
                    checker.count(Count::WakeUpLost);
                } else {
                    server.ring(seat, key);
                }
            }
        }
        Some((applied.reply, applied.delete_later))
    }

    /// The server comes back, if it was away.
    pub(crate) fn restart_server(&self) {
        let rearmed = self.server().restart();
        let mut checker = self.checker();
        checker.step(Step::Fault { what: "server is back", node: rearmed.len() });
        for record in &rearmed {
            checker.rearmed(record);
        }
    }

    /// The second step of a release that compared before ([`Mutant::ReleaseInTwoSteps`]).
    pub(crate) fn delete(&self, envelope: &Envelope) {
        let super::message::Request::Release(grant) = &envelope.request else { return };
        let deleted = self.server().delete(&grant.key);
        self.checker().deleted(grant, deleted.as_ref());
    }

    /// The fence of the live lease on the key with this number.
    pub(crate) fn standing_fence(&self, key: usize) -> Option<u64> {
        self.server().live_on(key).map(|record| record.fence.get())
    }

    /// `flush` returned on a client after this acquire was over.
    pub(crate) fn flushed(&self, attempt: u64) {
        let standing = {
            let server = self.server();
            let mut live = server.live();
            let mine = live.find(|record| attempt_number(&record.holder) == Some(attempt));
            mine.map(|record| record.fence.get())
        };
        self.checker().flushed(attempt, standing);
    }

    pub(crate) fn ended(&self, attempt: u64, phase: Phase) {
        self.checker().ended(attempt, phase);
    }

    // Healing.

    pub(crate) fn is_healed(&self) -> bool {
        self.healed.get()
    }

    pub(crate) async fn until_healed(&self) {
        self.healed.wait_for(|healed| healed).await;
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.step(Step::Fault { what: "healed", node: 0 });
        self.healed.set(true);
        self.set_weather(Weather::CALM);
        for seat in 0..SEATS {
            self.set_cut(seat, false);
            self.node(seat).resume();
        }
        self.restart_server();
        self.server().node.resume();
    }
}

/// Someone in the books of the checker who may believe; struck out on drop.
#[derive(Debug)]
pub(crate) struct Registration {
    world: Arc<World>,
    number: u64,
}

impl Registration {
    pub(crate) fn new(world: &Arc<World>, believer: Believer) -> Self {
        let number = world.checker().believer(believer);
        Self { world: Arc::clone(world), number }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.world.checker().no_believer(self.number);
    }
}

fn ppm(dice: &Dice) -> i64 {
    let drawn = dice.below(2 * PPM_MAX + 1);
    i64::try_from(drawn).unwrap_or(0) - i64::try_from(PPM_MAX).unwrap_or(0)
}

//! What is to go wrong, and when: a function of the seed alone.

use std::time::Duration;

use crate::dice::Dice;
use crate::fault::{Aim, Blow, Kind};
use crate::job::{TTL_LONG, TTL_SHORT};

/// How long a storm lasts, in milliseconds: the quiet after it lasts a third of that.
const STORM: (u64, u64) = (9_000, 18_000);

/// How long nothing happens at first, so that the workers can begin.
const CALM: Duration = Duration::from_secs(3);

/// The time from one strike to the next, in milliseconds. A strike is one fault or more.
const APART: (u64, u64) = (1_000, 2_400);

/// What the nemesis may do.
#[derive(Clone, Debug)]
pub(crate) struct Menu {
    pub(crate) kinds: Vec<Kind>,
    /// How many parts the network has.
    pub(crate) links: usize,
    /// How long the server may take to start again.
    pub(crate) start_max: Duration,
}

impl Menu {
    fn of(&self, aim: Aim) -> Vec<Kind> {
        self.kinds.iter().copied().filter(|kind| kind.aim() == aim).collect()
    }
}

/// All faults of a run of this length, in the order of time. A quarter of it is quiet.
pub(crate) fn plan(seed: u64, length: Duration, menu: &Menu) -> Vec<Blow> {
    let mut planner = Planner {
        dice: Dice::part(seed, 0xFA),
        menu,
        server_free: Duration::ZERO,
        links_free: vec![Duration::ZERO; menu.links],
        blows: Vec::new(),
    };
    let mut now = CALM;
    while now < length {
        let storm = planner.dice.millis(STORM.0, STORM.1);
        let mut at = now + planner.dice.millis(0, APART.0);
        while at < (now + storm).min(length) {
            planner.strike(at);
            at += planner.dice.millis(APART.0, APART.1);
        }
        now += storm + storm / 3;
    }
    planner.blows
}

struct Planner<'a> {
    dice: Dice,
    menu: &'a Menu,
    server_free: Duration,
    links_free: Vec<Duration>,
    blows: Vec<Blow>,
}

impl Planner<'_> {
    fn strike(&mut self, at: Duration) {
        let (workers, server) = (self.menu.of(Aim::Worker), self.menu.of(Aim::Server));
        let network = self.menu.of(Aim::Network);
        let before = self.blows.len();
        if self.dice.chance(300) && at >= self.server_free {
            self.blow(at, &server);
        }
        if self.dice.chance(600) {
            self.blow(at, &network);
        }
        let rest = if server.is_empty() && network.is_empty() { 3 } else { 2 };
        for _ in 0..rest {
            if self.dice.chance(700) || self.blows.len() == before {
                self.blow(at, &workers);
            }
        }
    }

    fn blow(&mut self, at: Duration, kinds: &[Kind]) {
        let Some(kind) = self.dice.pick(kinds) else { return };
        let (length, choice) = (self.length(kind), self.dice.next());
        match kind.aim() {
            Aim::Worker => {}
            Aim::Server => self.server_free = at + length + self.menu.start_max,
            Aim::Network => {
                let places = self.links_free.len() as u64;
                let link = usize::try_from(choice % places.max(1)).unwrap_or(0);
                let Some(free) = self.links_free.get_mut(link).filter(|free| at >= **free) else {
                    return;
                };
                *free = at + length;
            }
        }
        self.blows.push(Blow { at, kind, length, choice });
    }

    fn length(&mut self, kind: Kind) -> Duration {
        let dice = &mut self.dice;
        match kind {
            Kind::WorkerPause => {
                let ttl = if dice.chance(850) { TTL_SHORT } else { TTL_LONG };
                ttl * dice.pick(&[1, 3, 6]).unwrap_or(1) / 2
            }
            Kind::WorkerKill | Kind::ClockRate | Kind::Reset => Duration::ZERO,
            Kind::ClockStep | Kind::ServerClockStep => Duration::from_millis(4_500),
            Kind::ServerKill | Kind::ServerRestart => dice.millis(0, 800),
            Kind::ServerPause => dice.millis(500, 3_000),
            // Now and then for longer than a ttl: whoever holds then is robbed with right.
            Kind::Cut | Kind::LostRequests | Kind::LostReplies if dice.chance(200) => {
                dice.millis(2_000, 5_000)
            }
            Kind::Cut | Kind::LostRequests | Kind::LostReplies => dice.millis(200, 1_500),
            Kind::Sinking => dice.millis(3_000, 4_500),
            Kind::LateRequests | Kind::HalfOpen => dice.millis(200, 800),
            Kind::LostReply | Kind::Latency => dice.millis(500, 2_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu() -> Menu {
        Menu { kinds: Kind::ALL.to_vec(), links: 3, start_max: Duration::from_secs(1) }
    }

    const LENGTH: Duration = Duration::from_secs(420);

    #[test]
    fn a_seed_is_a_plan() {
        let plan = |seed| plan(seed, LENGTH, &menu());
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn every_kind_is_there_and_enough_of_them() {
        for seed in 0..20 {
            let blows = plan(seed, LENGTH, &menu());
            assert!(blows.len() >= 330, "seed {seed}: {}", blows.len());
            for kind in Kind::ALL {
                let count = blows.iter().filter(|blow| blow.kind == kind).count();
                assert!(count >= 4, "seed {seed}: {kind:?} {count} times");
            }
        }
    }

    #[test]
    fn where_there_are_only_workers_they_are_hit_as_often() {
        let kinds: Vec<Kind> = Kind::ALL[..4].to_vec();
        let menu = Menu { kinds, links: 0, start_max: Duration::ZERO };
        assert!(plan(7, LENGTH, &menu).len() >= 330);
    }

    #[test]
    fn a_quarter_is_quiet() {
        for seed in 0..20 {
            let blows = plan(seed, LENGTH, &menu());
            let mut strikes: Vec<Duration> = blows.iter().map(|blow| blow.at).collect();
            strikes.dedup();
            let longest = Duration::from_millis(APART.1);
            let gaps = strikes.windows(2).map(|pair| pair[1] - pair[0]);
            let quiet: Duration = gaps.filter(|gap| *gap > longest).sum();
            let share = quiet.div_duration_f64(LENGTH);
            // The gaps of a storm are in it at both ends.
            assert!((0.2..0.4).contains(&share), "seed {seed}: {share}");
        }
    }

    #[test]
    fn what_is_hit_is_left_alone_until_it_is_whole() {
        for seed in 0..20 {
            let blows = plan(seed, LENGTH, &menu());
            let server = blows.iter().filter(|blow| blow.kind.aim() == Aim::Server);
            let server: Vec<&Blow> = server.collect();
            assert!(server.windows(2).all(|two| two[0].at + two[0].length < two[1].at));
        }
    }
}

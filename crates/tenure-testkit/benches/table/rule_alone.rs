//! The rule by itself: what every store pays at the least.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, bail};
use tenure::claim::{Claim, Grant, Reentry};
use tenure::clock::{Clock, SystemClock};
use tenure::random::SystemRandom;
use tenure::rule::{self, Change, Now};
use tenure::{Fence, Holder, Key, Owner};

use crate::report::{Row, Table, per_second};
use crate::sample::{key, rate, timed};

const ROUNDS: u64 = 1_000_000;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let claim = Claim {
        key: Key::new(&key(0))?,
        owner: Owner::generate(&SystemRandom)?,
        ttl: Duration::from_secs(30),
        holder: Holder::this_process(),
        reentry: Reentry::Adopt,
    };
    let grant = Grant { key: claim.key.clone(), owner: claim.owner.clone(), fence: None };
    let now = Now { at: SystemClock.now(), wall: SystemClock.wall() };
    let ((), took) = timed(|| {
        for fence in 1..=ROUNDS {
            let (change, reply) = rule::acquire(None, black_box(&claim), Fence::new(fence), now);
            black_box(reply);
            let Change::Put(record) = change else { bail!("a free key was not granted") };
            black_box(rule::release(Some(&record), black_box(&grant), now));
        }
        Ok(())
    })?;
    let row = Row::new("rule: acquire + release", per_second(rate(ROUNDS, took)));
    table.add(row.note("no clock, no map, no task"));
    Ok(())
}

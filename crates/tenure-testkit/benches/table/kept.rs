//! The processor time of keeping many guards alive.

use std::time::Duration;

use anyhow::Result;
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};

use crate::machine::processor_time;
use crate::report::{Amount, Row, Table, short};
use crate::role::{Helper, argument, say};
use crate::sample::{elapsed_since, key, on_all_cores};

const GUARDS: u64 = 100_000;
const TTL: Duration = Duration::from_secs(30);
/// Two renewals of every guard.
const WINDOW: Duration = Duration::from_secs(20);
const SHARE_MAX: f64 = 0.10;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    // In a process of its own: the processor time is that of all threads.
    let mut helper = Helper::start("keep alive", &[&GUARDS.to_string()])?;
    let [used, wall, lost] = helper.numbers()?;
    let share = used as f64 / wall as f64;
    let each = Duration::from_nanos(used / (2 * GUARDS));
    let percent = Amount::new(format!("{:.1} %", share * 100.0), share * 100.0, "%");
    let row = Row::new("memory: kept-alive guards, 100,000", percent)
        .target("≤ 10 %", share <= SHARE_MAX && lost == 0)
        .note(format!("of a core, ttl 30 s; {} per renewal, {lost} lost", short(each)));
    table.add(row);
    Ok(())
}

pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let guards: u64 = argument(arguments, 0)?;
    on_all_cores(async move {
        let locks = Locks::open("memory:").await?;
        let mut held = Vec::new();
        for number in 0..guards {
            held.push(locks.lock(&key(number)).ttl(TTL).acquire().await?);
        }
        let (start, before) = (SystemClock.now(), processor_time());
        SystemClock.sleep_until(start + WINDOW).await;
        let used = processor_time().saturating_sub(before);
        let wall = elapsed_since(start);
        let lost = held.iter().filter(|guard| !guard.is_held()).count();
        say(&format!("{} {} {lost}", used.as_nanos(), wall.as_nanos()))?;
        // Nobody needs a hundred thousand releases.
        std::process::exit(0);
    })
}

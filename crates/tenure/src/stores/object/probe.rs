//! Whether the store does what it is told under a condition, asked before it is trusted.
//!
//! Some servers ignore conditions, some check them and then write, and let two writers through that
//! come at the same time. Neither can be seen from the outside, except by trying.

use std::time::Duration;

use futures_util::future::join_all;

use super::objects::Objects;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::random::Random;
use crate::stores::register::{Swap, Version};

/// How thoroughly a store is tried out when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// One request at a time: finds a store that ignores conditions.
    Quick,
    /// And several at once: finds one that checks conditions, but not atomically.
    Full,
}

/// What could be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    OneByOne,
    AtOnce,
}

/// How many write at once, and how often. On a server that checks first and writes then, the wrong
/// ones of these go through nearly every time.
const WRITERS: usize = 12;
const ROUNDS: usize = 3;

/// A server that turns most of them away, for want of room or by a limit, lets none race. So many
/// must be told that another was faster, or the round is repeated: so often in all.
const CONFLICTS_MIN: usize = 3;
const ROUNDS_MAX: usize = 6;

/// How long to leave a server alone that turned a write away, at first and at last.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(800);

/// Long enough that it takes a server a while to write it: that is when the next one gets in.
const BODY_BYTES: usize = 8 * 1024;

/// Tries the store out on objects of its own, which are removed afterwards where that is allowed.
pub(super) async fn run(objects: &Objects, random: &dyn Random, probe: Probe) -> Result<Tried> {
    let mut bytes = [0; 8];
    if !random.fill(&mut bytes) {
        return Err(Error::unavailable("the operating system gave no random bytes"));
    }
    let name = format!(".tenure-probe-{:016x}", u64::from_le_bytes(bytes));
    let mut names = vec![name.clone()];
    let mut outcome = one_at_a_time(objects, &name).await.map(|()| Tried::OneByOne);
    if outcome.is_ok() && probe == Probe::Full {
        outcome = several_at_once(objects, &name, &mut names).await;
    }
    join_all(names.iter().map(|name| objects.discard(name))).await;
    outcome
}

async fn one_at_a_time(objects: &Objects, name: &str) -> Result<()> {
    // A read first: it tells a wrong bucket or wrong credentials without having written anything.
    if objects.get(name).await?.is_some() {
        return Err(faulty("shows an object that nobody wrote"));
    }
    let first = written(objects.put(name, b"1", None).await?)?;
    if goes_through(objects, name, b"2", None).await? {
        return Err(faulty("ignores If-None-Match: two creates of one object both succeeded"));
    }
    written(objects.put(name, b"3", Some(&first)).await?)?;
    if goes_through(objects, name, b"4", Some(&first)).await? {
        return Err(faulty("ignores If-Match: an update over an old version succeeded"));
    }
    match objects.get(name).await? {
        Some(entry) if entry.body == b"3" => {
            // The tag of a read must do for a write.
            written(objects.put(name, b"5", Some(&entry.version)).await?)?;
            Ok(())
        }
        _ => Err(faulty("does not show what it has just written")),
    }
}

async fn several_at_once(objects: &Objects, name: &str, names: &mut Vec<String>) -> Result<Tried> {
    let mut races = 0;
    for round in 0..ROUNDS_MAX {
        let name = format!("{name}-{round}");
        names.push(name.clone());
        let Some(standing) = race(objects, &name, None, "create").await? else { continue };
        if race(objects, &name, Some(&standing), "update").await?.is_some() {
            races += 1;
        }
        if races == ROUNDS {
            return Ok(Tried::AtOnce);
        }
    }
    Ok(Tried::OneByOne)
}

/// Lets several write at once, of whom one may win; what stands afterwards is the winner's. `None`
/// when it was no race.
async fn race(
    objects: &Objects,
    name: &str,
    expected: Option<&Version>,
    verb: &str,
) -> Result<Option<Version>> {
    let bodies: Vec<_> = (0..WRITERS).map(|n| format!("{verb} {n:0BODY_BYTES$}")).collect();
    let writers = bodies.iter().map(|body| objects.put(name, body.as_bytes(), expected));
    let mut winners = Vec::new();
    let mut conflicts = 0;
    let mut in_doubt = false;
    for (swap, body) in join_all(writers).await.into_iter().zip(&bodies) {
        match swap {
            Ok(Swap::Done(_)) => winners.push(body),
            Ok(Swap::Conflict) => conflicts += 1,
            Err(error) if error.retry() == Retry::Never => return Err(error),
            Err(error) => in_doubt |= error.retry() == Retry::Unknown,
        }
    }
    if winners.len() > 1 {
        let count = winners.len();
        return Err(faulty(&format!(
            "checks conditions, but not atomically: of {WRITERS} that wanted to {verb} one object \
             at the same time, {count} succeeded"
        )));
    }
    let stands = objects.get(name).await?;
    let is_the_winners =
        |winner: &&String| stands.as_ref().is_some_and(|entry| entry.body == winner.as_bytes());
    if !in_doubt && !winners.first().is_none_or(is_the_winners) {
        return Err(faulty("answered that a write was made, and shows another"));
    }
    let was_race = winners.len() == 1 && conflicts >= CONFLICTS_MIN;
    Ok(stands.map(|entry| entry.version).filter(|_| was_race))
}

fn written(swap: Swap) -> Result<Version> {
    match swap {
        Swap::Done(version) => Ok(version),
        Swap::Conflict => Err(faulty("refuses a conditional write whose condition holds")),
    }
}

/// Whether a write is made that must not be. One that the store had no room for shows nothing, and
/// is sent again.
async fn goes_through(
    objects: &Objects,
    name: &str,
    body: &[u8],
    expected: Option<&Version>,
) -> Result<bool> {
    let mut pause = PAUSE;
    loop {
        match objects.put(name, body, expected).await {
            Ok(swap) => return Ok(matches!(swap, Swap::Done(_))),
            Err(error) if error.kind() == ErrorKind::Unavailable && pause <= PAUSE_MAX => {
                objects.pace.rest(pause).await;
                pause *= 2;
            }
            Err(error) => return Err(error),
        }
    }
}

fn faulty(what: &str) -> Error {
    let text = format!("this object store cannot keep locks: it {what}");
    Error::new(ErrorKind::Unsupported, text)
}

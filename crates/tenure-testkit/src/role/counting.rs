//! Counters that only a lock keeps right: each addition reads a file, checks its fence and writes
//! it back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure::{Guard, Locks};
use tokio::task::JoinSet;

use super::say;

/// How many counters there are.
pub const KEYS: usize = 10;

/// Longer than all of them take.
const WAIT: Duration = Duration::from_secs(300);

/// How long one addition was sure of its lock, on the boot clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The key.
    pub key: String,
    /// The fence of the grant.
    pub fence: u64,
    /// When the grant was known.
    pub from: u64,
    /// The last moment at which the guard was asked and said yes.
    pub until: u64,
}

impl Span {
    /// Reads what a counting process said after `span `.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split(' ');
        let mut word = || words.next().context("a word is missing");
        Ok(Self {
            key: word()?.to_owned(),
            fence: word()?.parse()?,
            from: word()?.parse()?,
            until: word()?.parse()?,
        })
    }
}

/// The present count of `key`, and the fence of who wrote it.
///
/// # Errors
/// When the file is not as a counting process leaves it.
pub fn read(folder: &Path, key: &str) -> Result<(u64, u64)> {
    let Ok(text) = fs::read_to_string(file(folder, key)) else { return Ok((0, 0)) };
    let (count, fence) = text.split_once(' ').with_context(|| format!("{key} holds {text:?}"))?;
    Ok((count.parse()?, fence.parse()?))
}

fn file(folder: &Path, key: &str) -> PathBuf {
    folder.join(key)
}

/// Says `span …` for each addition and `done` at the end.
pub(super) async fn play(locks: Locks, folder: &Path, tasks: usize) -> Result<()> {
    let mut all = JoinSet::new();
    for n in 0..tasks {
        let key = format!("counter-{}", n % KEYS);
        let (request, folder) = (locks.lock(&key).wait(WAIT), folder.to_owned());
        all.spawn(async move {
            let guard = request.acquire().await?;
            let span = add(&guard, &folder)?;
            let Span { key, fence, from, until } = span;
            say(&format!("span {key} {fence} {from} {until}"));
            guard.release().await?;
            anyhow::Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    say("done");
    Ok(())
}

fn add(guard: &Guard, folder: &Path) -> Result<Span> {
    let from = SystemClock.now().as_nanos();
    let (key, fence) = (guard.key().to_string(), guard.fence().get());
    let (count, last) = read(folder, &key)?;
    ensure!(fence > last, "{key}: fence {fence} after {last}");
    fs::write(file(folder, &key), format!("{} {fence}", count + 1))?;
    let until = SystemClock.now().as_nanos();
    ensure!(guard.is_held(), "{key}: the lease ended within an addition");
    Ok(Span { key, fence, from, until })
}

//! A thousand tasks in four processes, on ten keys: each adds one to a file under its lock. The sum
//! is exact, and no two of them were sure of the same lock at once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::role::counting::{KEYS, Span, read};
use tenure_testkit::role::{Process, Role};
use tenure_testkit::servers::{Kind, fresh_room};

use crate::{Idea, Load, Outcome, shared};

pub(crate) const IDEA: Idea = Idea {
    name: "crowd",
    load: Load::Works,
    show: |kind| Box::pin(show(kind, Process::start)),
    control: (|kind| Box::pin(show(kind, Process::start_careless)), "counter-"),
};

const PROCESSES: usize = 4;
const TASKS: usize = 250;
const TIME_MAX: Duration = Duration::from_secs(60);

async fn show(kind: Kind, start: fn(&Role) -> Result<Process>) -> Result<Outcome> {
    let service = shared(kind).await?;
    let folder = tempfile::tempdir()?;
    let role = Role::Count {
        url: service.url(fresh_room(), None),
        folder: folder.path().display().to_string(),
        tasks: TASKS,
    };
    let began = SystemClock.now();
    let processes = (0..PROCESSES).map(|_| start(&role)).collect::<Result<Vec<_>>>()?;
    let readers: Vec<_> = processes.into_iter().map(|one| tokio::spawn(spans(one))).collect();
    let mut all = Vec::new();
    for reader in readers {
        all.extend(reader.await??);
    }
    let took = SystemClock.now().since(began);
    let handed = check(&all, folder.path())?;
    ensure!(took <= TIME_MAX, "took {took:?}, over {TIME_MAX:?}");
    Ok(Outcome::Passed(format!("{} additions in {took:?}, {handed} hand-overs", all.len())))
}

/// What one process says until it is done.
async fn spans(mut process: Process) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    loop {
        let line = process.next().await?.context("the process ended")?;
        match line.strip_prefix("span ") {
            Some(span) => spans.push(Span::parse(span)?),
            None if line == "done" => return Ok(spans),
            None => anyhow::bail!("an unknown line: {line}"),
        }
    }
}

/// Sums and spans; returns how many grants there were after others of their key.
fn check(all: &[Span], folder: &Path) -> Result<usize> {
    let mut by_key: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in all {
        by_key.entry(&span.key).or_default().push(span);
    }
    ensure!(by_key.len() == KEYS && all.len() == PROCESSES * TASKS, "{} additions", all.len());
    let mut handed = 0;
    for (key, mut spans) in by_key {
        spans.sort_by_key(|span| span.fence);
        for pair in spans.windows(2) {
            let (one, two) = (pair[0], pair[1]);
            ensure!(one.fence < two.fence, "{key}: fence {} twice", one.fence);
            ensure!(one.until < two.from, "{key}: two were sure at once: {one:?} and {two:?}");
            handed += 1;
        }
        let (count, fence) = read(folder, key)?;
        let last = spans.last().map_or(0, |span| span.fence);
        ensure!(count == spans.len() as u64, "{key}: {count} after {} additions", spans.len());
        ensure!(fence == last, "{key}: written by {fence}, the last grant was {last}");
    }
    Ok(handed)
}

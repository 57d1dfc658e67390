//! How long a key stands free between two processes that both want it.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::contest::{Contest, Held};
use crate::machine::folder;
use crate::raw_sqlite::{self, RawSqlite};
use crate::report::{Better, Row, Table, short};
use crate::sample::{is_unsteady, median, quantile};

const MEDIAN_MAX: Duration = Duration::from_millis(5);
/// How long one holds.
const TURN: Duration = Duration::from_millis(4);
/// One task in each of two processes.
pub(crate) const TWO: [usize; 2] = [1, 1];

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let connection = raw_sqlite::open(&folder.path().join("raw.db"))?;
    let mut raw = RawSqlite::on(&connection)?;
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let before = raw.commit_time(200)?;
    let turns = Contest::on(&url, TURN).hold(&TWO)?;
    let after = raw.commit_time(200)?;
    let commit = (before + after) / 2;
    let mut gaps = gaps(&turns);
    let middle = median(&mut gaps).context("the key never went to the other process")?;
    let row = Row::new("file: hand-off, 2 processes", short(middle))
        .beside(format!("raw commit {}", short(commit)))
        .ratio(middle.as_secs_f64() / commit.as_secs_f64(), Better::Lower)
        .target("≤ 5 ms", middle <= MEDIAN_MAX)
        .unsure_if(is_unsteady([before, after].iter().map(Duration::as_secs_f64)))
        .note(format!("median of {}; two commits at the least", gaps.len()));
    table.add(row);
    let late = quantile(&mut gaps, 0.99).context("no hand-off")?;
    table.add(Row::new("file: hand-off, 2 processes, p99", short(late)));
    let greedy = Contest::on(&url, Duration::ZERO).hold(&TWO)?;
    let mut gaps = self::gaps(&greedy);
    let middle = median(&mut gaps).context("one process had the key all the time")?;
    let row = Row::new("file: hand-off, both ask at once", short(middle)).note(format!(
        "{} of {} grants changed process, the longest wait was {}",
        gaps.len(),
        greedy.len(),
        short(longest_wait(&greedy))
    ));
    table.add(row);
    Ok(())
}

/// From the start of a release in one process to the next grant in the other.
pub(crate) fn gaps(grants: &[Held]) -> Vec<Duration> {
    let changes = grants.windows(2).filter(|pair| pair[0].process != pair[1].process);
    changes.map(|pair| Duration::from_nanos(pair[1].from.saturating_sub(pair[0].until))).collect()
}

/// The longest time that one process was without the key, between two grants to it.
fn longest_wait(grants: &[Held]) -> Duration {
    let waits = [0, 1].into_iter().flat_map(|process| {
        let mine: Vec<_> = grants.iter().filter(|held| held.process == process).collect();
        mine.windows(2).map(|pair| pair[1].from.saturating_sub(pair[0].until)).collect::<Vec<_>>()
    });
    Duration::from_nanos(waits.max().unwrap_or(0))
}

//! A hand-off where more than one waits: one, ten and a hundred contenders, in several processes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure_testkit::servers::{fresh_room, kinds};

use crate::figure::{Figure, Source};
use crate::handoff::{Held, RUN, contend};
use crate::machine::folder;
use crate::report::{Row, Table, short};
use crate::role::Helper;
use crate::sample::{median, quantile};

/// How many wait while one holds.
const CONTENDERS: [usize; 3] = [1, 10, 100];
const PROCESSES: usize = 4;
/// How long one holds.
const TURN: Duration = Duration::from_millis(5);
/// This part of a run passes before all of them stand in line.
const JOINING: u32 = 10;
/// Fewer than these say nothing.
const HAND_OFFS_MIN: usize = 20;

pub(crate) fn measure_file(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let url = |count| format!("file:{}", folder.path().join(format!("{count}.db")).display());
    series(table, "file", url)
}

pub(crate) fn measure_server(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("locks.db").display().to_string();
    let mut helper = Helper::start("serve", &[&file, ""])?;
    let address = helper.line()?.context("the server ended")?;
    series(table, "server", |_| format!("tenure://{address}"))
}

pub(crate) fn measure(table: &mut Table, name: &str) -> Result<()> {
    let kind = kinds().into_iter().find(|kind| kind.name == name).context("no such kind")?;
    let service = kind.shared()?;
    series(table, name, |_| service.url(fresh_room(), None))
}

/// The same store with more and more of them, told by its URL.
fn series(table: &mut Table, name: &str, url: impl Fn(usize) -> String) -> Result<()> {
    let mut first = None;
    for count in CONTENDERS {
        let grants = contend(&url(count), TURN, &spread(count))?;
        let HandOffs { mut gaps, changes } = hand_offs(&grants);
        ensure!(gaps.len() >= HAND_OFFS_MIN, "only {} hand-offs", gaps.len());
        let (number, changed) = (gaps.len(), 100 * changes / gaps.len());
        let middle = median(&mut gaps).context("no hand-off")?;
        let late = quantile(&mut gaps, 0.99).context("no hand-off")?;
        let plural = if count == 1 { "" } else { "s" };
        let mut row =
            Row::new(format!("hand-off: {name}, {count} contender{plural}"), short(middle)).note(
                format!("p99 {}; median of {number}, {changed} % to another process", short(late)),
            );
        let alone = *first.get_or_insert(middle);
        if count > CONTENDERS[0] {
            row = row.beside(format!("with 1: {}", short(alone)));
            row = row.ratio_to_itself(middle.as_secs_f64() / alone.as_secs_f64());
        }
        table.add(row);
        for (figure, time) in [(Figure::HandOff, middle), (Figure::HandOffLate, late)] {
            table.plot(figure, Source::Ours(name), count as f64, time.as_secs_f64());
        }
    }
    Ok(())
}

/// So many who wait and one who holds, over the processes: two for two, and else as evenly as it
/// goes.
fn spread(contenders: usize) -> Vec<usize> {
    let tasks = contenders + 1;
    let processes = PROCESSES.min(tasks);
    (0..processes).map(|at| tasks / processes + usize::from(at < tasks % processes)).collect()
}

struct HandOffs {
    /// From the start of a release to the next grant.
    gaps: Vec<Duration>,
    /// How many of them led to another process.
    changes: usize,
}

/// Those that happened while all were there: not at the start, and not when some have left.
fn hand_offs(grants: &[Held]) -> HandOffs {
    let start = grants.iter().map(|held| held.from).min().unwrap_or(0);
    let after = |time: Duration| start + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (from, until) = (after(RUN / JOINING), after(RUN));
    let pairs = || {
        let pairs = grants.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(move |(one, next)| one.from >= from && next.from < until)
    };
    let gap = |(one, next): (Held, Held)| Duration::from_nanos(next.from.saturating_sub(one.until));
    let changes = pairs().filter(|(one, next)| one.process != next.process).count();
    HandOffs { gaps: pairs().map(gap).collect(), changes }
}

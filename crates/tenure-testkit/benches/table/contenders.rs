//! A hand-off where more than one waits: one, ten and a hundred contenders, in several processes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure_testkit::servers::{Service, fresh_room, kinds};

use crate::contest::{Contest, Held, Lock, RUN};
use crate::figure::{Figure, Source};
use crate::machine::folder;
use crate::report::{Better, Row, Table, short};
use crate::sample::{median, quantile};
use crate::shipped::Served;

/// How many wait while one holds.
const CONTENDERS: [usize; 3] = [1, 10, 100];
const PROCESSES: usize = 4;
/// How long one holds.
const TURN: Duration = Duration::from_millis(5);
/// This part of a run passes before all of them stand in line.
const JOINING: u32 = 10;
/// Fewer than these say nothing.
const HAND_OFFS_MIN: usize = 20;
/// How long to look at one that looks only now and then, and how many hand-offs are enough then.
const RUN_POLLED: Duration = Duration::from_secs(30);
const HAND_OFFS_MIN_POLLED: usize = 5;

pub(crate) fn measure_file(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let url = |count| format!("file:{}", folder.path().join(format!("{count}.db")).display());
    series(table, "file", url, None)
}

pub(crate) fn measure_server(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("locks.db").display().to_string();
    let served = Served::start(&file)?;
    series(table, "server", |_| format!("tenure://{}", served.address), None)
}

pub(crate) fn measure(table: &mut Table, name: &str) -> Result<()> {
    let kind = kinds().into_iter().find(|kind| kind.name == name).context("no such kind")?;
    let service = kind.shared()?;
    let rival = Rival::on(name, &*service)?;
    series(table, name, |_| service.url(fresh_room(), None), rival.as_ref())
}

/// Whether those who wait on this store look for themselves, because it wakes nobody.
fn is_polled(name: &str) -> bool {
    name.starts_with("object")
}

/// How long to look at so many contenders. One alone that looks only now and then mostly finds the
/// key taken: it takes longer to see enough of its turns.
fn run(is_polled: bool, contenders: usize) -> Duration {
    if is_polled && contenders == 1 { RUN_POLLED } else { RUN }
}

/// What people use instead on the same server.
struct Rival {
    lock: Lock,
    at: String,
}

impl Rival {
    fn on(name: &str, service: &dyn Service) -> Result<Option<Self>> {
        Ok(match name {
            "redis" => Some(Self { lock: Lock::Polled, at: service.url(fresh_room(), None) }),
            "etcd" => {
                let server = service.server().context("no server runs")?;
                Some(Self { lock: Lock::Etcd, at: server.address().to_string() })
            }
            _ => None,
        })
    }

    fn hand_offs(&self, contenders: usize) -> Result<HandOffs> {
        let Self { lock, at } = self;
        let is_polled = *lock == Lock::Polled;
        let run = run(is_polled, contenders);
        HandOffs::of(&Contest { lock: *lock, at, turn: TURN, run }, contenders, is_polled)
    }
}

/// The same store with more and more of them, told by its URL, in turns with its rival.
fn series(
    table: &mut Table,
    name: &str,
    url: impl Fn(usize) -> String,
    rival: Option<&Rival>,
) -> Result<()> {
    let mut first = None;
    for count in CONTENDERS {
        let plural = if count == 1 { "" } else { "s" };
        let title = |name: &str| format!("hand-off: {name}, {count} contender{plural}");
        let theirs = rival.map(|rival| rival.hand_offs(count)).transpose()?;
        let theirs = rival.map(|rival| rival.lock.name()).zip(theirs);
        let (is_polled, url) = (is_polled(name), url(count));
        let contest = Contest { run: run(is_polled, count), ..Contest::on(&url, TURN) };
        let ours = HandOffs::of(&contest, count, is_polled)?;
        let alone = *first.get_or_insert(ours.middle);
        let mut row = Row::new(title(name), short(ours.middle)).note(ours.note());
        if let Some((rival, theirs)) = &theirs {
            row = row.beside(format!("{rival} {}", short(theirs.middle)));
            row = row.ratio(ours.times(theirs.middle), Better::Lower);
        } else if count > CONTENDERS[0] {
            row = row.beside(format!("with 1: {}", short(alone)));
            row = row.ratio_to_itself(ours.times(alone));
        }
        table.add(row);
        ours.plot(table, Source::Ours(name), count);
        if let Some((rival, theirs)) = theirs {
            table.add(Row::new(title(rival), short(theirs.middle)).note(theirs.note()));
            theirs.plot(table, Source::Theirs(rival), count);
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

/// From the start of a release to the grant of another.
struct HandOffs {
    middle: Duration,
    late: Duration,
    number: usize,
    /// How many of them led to another process, in percent.
    elsewhere: usize,
    /// How many grants went to the one who had just given it back, in percent.
    again: usize,
}

impl HandOffs {
    /// Those that happened while all were there: not at the start, and not when some have left.
    fn of(contest: &Contest<'_>, contenders: usize, is_polled: bool) -> Result<Self> {
        let grants = contest.hold(&spread(contenders))?;
        let start = grants.first().context("no grant")?.from;
        let after = |time: Duration| start + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (from, until) = (after(contest.run / JOINING), after(contest.run));
        let spells: Vec<&[Held]> = grants.chunk_by(Held::is_same).collect();
        // Whoever takes it again itself has handed it to nobody: others wait from when it was first
        // given back.
        let changes = spells.windows(2).map(|pair| (pair[0][0], pair[1][0]));
        let changes: Vec<(Held, Held)> =
            changes.filter(|(one, next)| one.from >= from && next.from < until).collect();
        let gap = |(one, next): &(Held, Held)| next.from.saturating_sub(one.until);
        let mut gaps: Vec<Duration> = changes.iter().map(gap).map(Duration::from_nanos).collect();
        let least = if is_polled { HAND_OFFS_MIN_POLLED } else { HAND_OFFS_MIN };
        let number = gaps.len();
        ensure!(number >= least, "only {number} hand-offs");
        let elsewhere = changes.iter().filter(|(one, next)| one.process != next.process).count();
        Ok(Self {
            middle: median(&mut gaps).context("no hand-off")?,
            late: quantile(&mut gaps, 0.99).context("no hand-off")?,
            number,
            elsewhere: 100 * elsewhere / number,
            again: 100 * (grants.len() - spells.len()) / grants.len(),
        })
    }

    /// How many times that it takes.
    fn times(&self, other: Duration) -> f64 {
        self.middle.as_secs_f64() / other.as_secs_f64()
    }

    fn note(&self) -> String {
        let Self { late, number, elsewhere, again, .. } = self;
        let late = short(*late);
        format!(
            "p99 {late}; median of {number}, {elsewhere} % to another process; {again} % of all \
             grants to the one before"
        )
    }

    fn plot(&self, table: &mut Table, source: Source<'_>, contenders: usize) {
        let Self { middle, late, .. } = self;
        for (figure, time) in [(Figure::HandOff, middle), (Figure::HandOffLate, late)] {
            table.plot(figure, source, contenders as f64, time.as_secs_f64());
        }
    }
}

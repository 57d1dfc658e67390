//! A hand-off where more than one waits: one, ten and a hundred contenders, in several processes.

mod course;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure_testkit::servers::{Service, fresh_room};

use self::course::{Course, MIDDLE, Run, SHARES, Share};
use crate::contest::{Contest, Lock};
use crate::figure::{Point, Source};
use crate::machine::folder;
use crate::report::{Better, Row, Table, short};
use crate::rivals::redis_lock;
use crate::served;
use crate::shipped::Served;

/// How many wait while one holds.
const CONTENDERS: [usize; 3] = [1, 10, 100];
const PROCESSES: usize = 4;
const ROUNDS: usize = 3;
/// How long one holds.
const TURN: Duration = Duration::from_millis(5);
/// How long each goes on in a round, and how long where one alone looks only now and then: it
/// mostly finds the key taken, so that it takes longer to see enough of its turns.
const RUN: Duration = Duration::from_millis(2500);
const RUN_POLLED: Duration = Duration::from_secs(10);

/// What else hands over a lock.
const POLLED: &str = Lock::Polled.name();
const POLLED_UNSYNCED: &str = "Redis everysec, polled";
const QUEUED: &str = Lock::Etcd.name();

/// One lock at one place.
struct Contestant {
    name: &'static str,
    lock: Lock,
    at: String,
    /// The names of those that it stands beside, and what follows the name of the row then.
    rivals: &'static [(&'static str, &'static str)],
}

pub(crate) fn measure_file(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let at = format!("file:{}", folder.path().join("locks.db").display());
    series(table, &[Contestant::ours("file", at)])
}

/// A store whose server has no lock of its own that can be waited for.
pub(crate) fn measure(table: &mut Table, name: &'static str) -> Result<()> {
    let service = served::kind(name)?.shared()?;
    series(table, &[Contestant::ours(name, room(&service))])
}

/// tenure's server, and the stores whose servers have locks of their own, beside these.
pub(crate) fn measure_rivals(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let (redis, etcd) = (served::kind("redis")?.shared()?, served::kind("etcd")?.shared()?);
    let unsynced = redis_lock::start("everysec")?;
    let member = etcd.server().context("no server runs")?.address().to_string();
    let all = [
        Contestant::ours("server", format!("tenure://{}", served.address)).beside(&[
            (POLLED, ""),
            (POLLED_UNSYNCED, " (everysec)"),
            (QUEUED, " (etcd)"),
        ]),
        Contestant::ours("redis", room(&redis)).beside(&[(POLLED, "")]),
        Contestant::ours("etcd", room(&etcd)).beside(&[(QUEUED, "")]),
        Contestant::theirs(POLLED, Lock::Polled, room(&redis)),
        Contestant::theirs(
            POLLED_UNSYNCED,
            Lock::Polled,
            format!("redis://{}/", unsynced.address()),
        ),
        Contestant::theirs(QUEUED, Lock::Etcd, member),
    ];
    series(table, &all)
}

fn room(service: &Arc<dyn Service>) -> String {
    service.url(fresh_room(), None)
}

impl Contestant {
    fn ours(name: &'static str, at: String) -> Self {
        Self { name, lock: Lock::Tenure, at, rivals: &[] }
    }

    fn theirs(name: &'static str, lock: Lock, at: String) -> Self {
        Self { name, lock, at, rivals: &[] }
    }

    fn beside(self, rivals: &'static [(&'static str, &'static str)]) -> Self {
        Self { rivals, ..self }
    }

    fn is_ours(&self) -> bool {
        self.lock == Lock::Tenure
    }

    /// Whether those who wait look for themselves, because nothing wakes them.
    fn is_polled(&self) -> bool {
        self.lock == Lock::Polled || self.name.starts_with("object")
    }

    fn run(&self, contenders: usize) -> Result<Run> {
        let run = if self.is_polled() && contenders == 1 { RUN_POLLED } else { RUN };
        let contest = Contest { lock: self.lock, at: &self.at, turn: TURN, run };
        Run::of(&contest, &spread(contenders))
    }
}

/// So many who wait and one who holds, over the processes: two for two, and else as evenly as it
/// goes.
fn spread(contenders: usize) -> Vec<usize> {
    let tasks = contenders + 1;
    let processes = PROCESSES.min(tasks);
    (0..processes).map(|at| tasks / processes + usize::from(at < tasks % processes)).collect()
}

/// All of them with more and more who wait.
fn series(table: &mut Table, contestants: &[Contestant]) -> Result<()> {
    let mut alone = Vec::new();
    for count in CONTENDERS {
        let courses = take_turns(contestants, count)?;
        if alone.is_empty() {
            alone = courses.iter().map(|course| course.time(MIDDLE)).collect();
        }
        for ((one, course), alone) in contestants.iter().zip(&courses).zip(&alone) {
            let plural = if count == 1 { "" } else { "s" };
            let title = format!("hand-off: {}, {count} contender{plural}", one.name);
            if one.rivals.is_empty() {
                let alone = alone.filter(|_| one.is_ours() && count > CONTENDERS[0]);
                table.add(row_alone(&title, course, alone)?);
            }
            for (rival, suffix) in one.rivals {
                let mut all = contestants.iter().zip(&courses);
                let (_, theirs) =
                    all.find(|(other, _)| other.name == *rival).context("no such rival")?;
                for share in SHARES {
                    let title = format!("{title}{}{suffix}", share.name);
                    let row = row_beside(&title, course, (rival, theirs), share)?;
                    row.into_iter().for_each(|row| table.add(row));
                }
            }
            plot(table, one, course, count);
        }
    }
    Ok(())
}

/// What each showed in the rounds in which all took turns.
fn take_turns(contestants: &[Contestant], contenders: usize) -> Result<Vec<Course>> {
    let mut courses: Vec<Course> = contestants.iter().map(|_| Course::default()).collect();
    for round in 0..ROUNDS {
        let mut turns: Vec<_> = contestants.iter().zip(&mut courses).collect();
        // Nobody always comes after the same one.
        if round % 2 == 1 {
            turns.reverse();
        }
        for (one, course) in turns {
            course.push(one.run(contenders).with_context(|| one.name)?);
        }
    }
    for (one, course) in contestants.iter().zip(&courses) {
        course.ensure_enough().with_context(|| format!("{}, {contenders}", one.name))?;
    }
    Ok(courses)
}

/// One that stands beside nothing but itself with a single contender.
fn row_alone(title: &str, course: &Course, alone: Option<Duration>) -> Result<Row> {
    let middle = course.time(MIDDLE).context("no hand-off")?;
    let row = Row::new(title, short(middle)).note(course.note());
    let row = row.unsure_if(course.is_unsure(MIDDLE));
    Ok(match alone {
        Some(alone) => row
            .beside(format!("with 1: {}", short(alone)))
            .ratio_to_itself(middle.as_secs_f64() / alone.as_secs_f64()),
        None => row,
    })
}

/// `None` where no round showed enough of both.
fn row_beside(
    title: &str,
    ours: &Course,
    (rival, theirs): (&str, &Course),
    share: Share,
) -> Result<Option<Row>> {
    let Some(pairs) = ours.beside(theirs, share) else { return Ok(None) };
    let seconds = |seconds| short(Duration::from_secs_f64(seconds));
    let row = Row::new(title, seconds(pairs.measured()?))
        .beside(format!("{rival} {}", seconds(pairs.reference()?)))
        .ratio(pairs.ratio()?, Better::Lower)
        .unsure_if(ours.is_unsure(share) || theirs.is_unsure(share));
    // Said once.
    Ok(Some(if share == MIDDLE { row.note(ours.note()) } else { row }))
}

fn plot(table: &mut Table, one: &Contestant, course: &Course, contenders: usize) {
    let source = if one.is_ours() { Source::Ours(one.name) } else { Source::Theirs(one.name) };
    for share in SHARES {
        if let Some(time) = course.time(share) {
            let point = Point::new(share.figure, source, contenders as f64, time.as_secs_f64());
            table.draw(point.unsure_if(course.is_unsure(share)));
        }
    }
}

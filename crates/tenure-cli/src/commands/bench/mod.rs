//! `tenure bench`: how fast this store is from here.

mod args;
mod draw;
mod measure;
mod sample;

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};

pub(crate) use args::{BenchArgs, Only};
use draw::Canvas;
use sample::Sample;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::style::{Style, Tone};
use crate::{answer, open, scratch, terminal};

/// What is left behind when this is interrupted is free after this time.
const TTL: Duration = Duration::from_secs(10);

const TICK: Duration = Duration::from_millis(100);

/// How many tasks fight over one key, and how many have one each.
const CONTENDERS: usize = 8;
const SPREAD: usize = 32;

/// One measurement.
struct Row {
    name: &'static str,
    what: &'static str,
    sample: Sample,
}

/// Measures what is wanted, and shows it.
pub(crate) async fn bench(args: &BenchArgs) -> Result<Exit, Failure> {
    let namespace = scratch::namespace("bench")?;
    let store = open::store(&args.place, args.output.verbose).await?;
    let locks = scratch::locks(store, &namespace, TTL).await?;
    let (reference, rows) = measure_all(args, &locks, &namespace).await?;
    open::flush(&locks).await;
    if args.output.json {
        answer::json(&report(args, &locks, &reference, &rows))?;
    } else {
        for line in lines(&locks, &reference, &rows) {
            answer::raw(&format!("{line}\n"))?;
        }
    }
    Ok(Exit::SUCCESS)
}

async fn measure_all(
    args: &BenchArgs,
    locks: &Locks,
    namespace: &str,
) -> Result<(Row, Vec<Row>), Failure> {
    let length = args.length();
    let wanted = |what| if args.wants(what) { 1 } else { 0 };
    let total = 1 + wanted(Only::Cycle) + wanted(Only::Handoff) + 2 * wanted(Only::Contention);
    let mut meter = Meter { progress: Progress::new(args.output.quiet), done: 0, total, length };
    let what = "a look at a free key";
    let reference = meter.row("round trip", what, measure::round_trip(locks, length / 2)).await?;
    let mut rows = Vec::new();
    if args.wants(Only::Cycle) {
        let what = "acquire and release, one after the other";
        rows.push(meter.row("cycle", what, measure::cycle(locks, length)).await?);
    }
    if args.wants(Only::Handoff) {
        let store = open::store(&args.place, false).await?;
        let other = scratch::locks(store, namespace, TTL).await?;
        let what = "from a release to the other connection's grant";
        rows.push(meter.row("hand-off", what, measure::hand_off(locks, &other, length)).await?);
    }
    if args.wants(Only::Contention) {
        let what = "8 tasks on one key, each acquires and releases";
        let work = measure::many(locks, CONTENDERS, 1, length);
        rows.push(meter.row("contention", what, work).await?);
        let what = "32 tasks on 32 keys, each acquires and releases";
        let work = measure::many(locks, SPREAD, SPREAD, length);
        rows.push(meter.row("spread", what, work).await?);
    }
    Ok((reference, rows))
}

/// Shows how far the measuring is.
struct Meter {
    progress: Progress,
    done: u32,
    total: u32,
    length: Duration,
}

impl Meter {
    async fn row(
        &mut self,
        name: &'static str,
        what: &'static str,
        work: impl Future<Output = tenure::Result<Sample>>,
    ) -> Result<Row, Failure> {
        let start = SystemClock.now();
        let mut work = std::pin::pin!(work);
        let outcome = loop {
            let share = SystemClock.now().since(start).div_duration_f64(self.length).min(1.0);
            self.progress.show((f64::from(self.done) + share) / f64::from(self.total), name);
            tokio::select! {
                biased;
                outcome = &mut work => break outcome,
                () = SystemClock.sleep_until(SystemClock.now() + TICK) => {}
            }
        };
        self.done += 1;
        let sample = outcome.map_err(|error| Failure::of_error(&error))?;
        Ok(Row { name, what, sample })
    }
}

fn lines(locks: &Locks, reference: &Row, rows: &[Row]) -> Vec<String> {
    let stdout = io::stdout();
    let style = Style::of(&stdout);
    let canvas =
        Canvas { width: terminal::width(&stdout), has_blocks: terminal::has_blocks(&stdout) };
    let mut lines = vec![format!("store {}", locks.store().name)];
    for row in std::iter::once(reference).chain(rows) {
        let Row { name, what, sample } = row;
        lines.push(String::new());
        lines.push(format!("{} {what}", style.paint(Tone::Strong, &format!("{name}:"))));
        lines.push(format!("  {}", canvas.figures(sample)));
        if !std::ptr::eq(row, reference) {
            let ratio = sample.ratio(&reference.sample);
            lines.push(format!("  p50 is {ratio:.1} round trips"));
        }
        lines.extend(canvas.histogram(sample));
    }
    lines
}

fn report(args: &BenchArgs, locks: &Locks, reference: &Row, rows: &[Row]) -> Value {
    let results = rows.iter().map(|row| {
        let mut result = row.sample.json();
        result["name"] = row.name.into();
        result["round_trips"] = row.sample.ratio(&reference.sample).into();
        result
    });
    json!({
        "store": locks.store().name,
        "seconds": args.length().as_secs(),
        "round_trip": reference.sample.json(),
        "results": results.collect::<Vec<_>>(),
    })
}

//! What `tenure run` adds to a command, beside what `flock` adds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::machine::folder;
use crate::report::{Amount, Better, Row, Table, short};
use crate::sample::{median, timed};
use crate::shipped::{Served, program};

const ROUNDS: usize = 40;
const ADDED_MAX: Duration = Duration::from_millis(15);
const HELP_MAX: Duration = Duration::from_millis(10);

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let tenure = &program()?;
    let folder = folder()?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let served = Served::start(&file("served.db"))?;
    let stores = [
        ("command: run, file", format!("file:{}", file("own.db"))),
        ("command: run, server", format!("tenure://{}", served.address)),
    ];
    for (name, store) in stores {
        table.add(added(name, tenure, &store, &file("flock"))?);
    }
    let mut helps = Vec::new();
    for _ in 0..ROUNDS {
        helps.push(once(tenure, &["--help"])?);
    }
    let help = median(&mut helps).unwrap_or_default();
    table.add(Row::new("command: --help", short(help)).target("≤ 10 ms", help <= HELP_MAX));
    Ok(())
}

/// The three take turns, so that a slow spell of the machine hits all of them.
fn added(name: &str, tenure: &Path, store: &str, lock: &str) -> Result<Row> {
    let run = ["run", "k", "--store", store, "--", "true"];
    let [mut bare, mut flock, mut locked] = [(); 3].map(|()| Vec::with_capacity(ROUNDS));
    // The first makes the file.
    once(tenure, &run)?;
    for _ in 0..ROUNDS {
        bare.push(once("true".as_ref(), &[])?);
        flock.push(once("flock".as_ref(), &["-n", lock, "true"])?);
        locked.push(once(tenure, &run)?);
    }
    let middle = |times: &mut Vec<Duration>| median(times).unwrap_or_default();
    let (bare, flock, locked) = (middle(&mut bare), middle(&mut flock), middle(&mut locked));
    let more = locked.saturating_sub(bare);
    let added = Amount::new(format!("+{}", short(more)), more.as_secs_f64(), "s");
    Ok(Row::new(name, added)
        .beside(format!("flock -n: +{}", short(flock.saturating_sub(bare))))
        .ratio(locked.as_secs_f64() / flock.as_secs_f64(), Better::Lower)
        .target("≤ 15 ms", more <= ADDED_MAX)
        .note("over the bare command; the ratio is that of the whole times"))
}

fn once(program: &Path, words: &[&str]) -> Result<Duration> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let (status, took) = timed(|| Ok(command.status()?))?;
    ensure!(status.success(), "{}: {status}", program.display());
    Ok(took)
}

//! `cargo xtask fuzz`: every decoder against inputs that nobody thought of, for a bounded time.
//!
//! The targets are in `fuzz/`, laid out for `cargo fuzz`, which is not needed: they are built here
//! in one go, with the flags that it would use for what is of interest. Each begins with its seeds
//! in `fuzz/corpus/`; what it finds on top of them goes into `fuzz` in the target folder, and is
//! where the next run begins.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{command, output, run as run_command};
use crate::target;

/// Every target, and so every decoder: this list, the files and the manifest must agree.
const TARGETS: &[&str] = &[
    "cell",
    "component",
    "config",
    "door",
    "duration",
    "etcd_answer",
    "file_row",
    "forrst",
    "forrst_answer",
    "forrst_handed_on",
    "history",
    "http",
    "key",
    "nats_answer",
    "postgres_row",
    "protobuf",
    "redis_reply",
    "remote_answer",
    "spelling",
    "time",
    "url",
];

/// How long all of them take together, when nothing is said.
pub(crate) const SECONDS: u64 = 30;

/// What is called in place of rustc: it knows which crates get counters, and which flags make them.
/// All of these are stable.
const RUSTC: &str = "rustc.sh";

/// An input may take 10 seconds and 2 GiB: more is a finding.
const BOUNDS: [&str; 3] = ["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"];

/// How much is shown of what a target said that failed.
const LINES_SHOWN: usize = 40;

/// Where everything is.
#[derive(Debug)]
struct Place {
    /// `fuzz/` in the repository.
    sources: PathBuf,
    /// What is built.
    binaries: PathBuf,
    /// `fuzz` in the target folder.
    finds: PathBuf,
}

/// What came of one target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    target: String,
    executions: u64,
    edges: u64,
    /// What to tell of a failure.
    failure: Option<String>,
}

/// Only builds all targets, for a run to come.
pub(crate) fn prepare(root: &Path) -> Result<()> {
    build(root).map(drop)
}

/// Builds the targets and runs those that are named, or all of them, for `seconds` in total.
pub(crate) fn run(root: &Path, seconds: u64, named: &[String]) -> Result<()> {
    check_list(root)?;
    let chosen = chosen(named)?;
    let place = build(root)?;
    let lanes = thread::available_parallelism().map_or(1, usize::from);
    let share = share(seconds, chosen.len(), lanes);
    println!("each of {} targets runs for {share} s, {lanes} at once", chosen.len());
    let outcomes = run_all(&chosen, lanes, |target| fuzz(&place, target, share));
    report(&outcomes?)
}

/// That no target is forgotten: neither here nor in the manifest, and none is without seeds.
fn check_list(root: &Path) -> Result<()> {
    let listed: BTreeSet<&str> = TARGETS.iter().copied().collect();
    let folder = root.join("fuzz");
    let files = names(&folder.join("fuzz_targets"))?;
    let files: BTreeSet<&str> = files.iter().filter_map(|name| name.strip_suffix(".rs")).collect();
    ensure!(listed == files, "xtask/src/fuzz.rs lists {listed:?}, fuzz_targets has {files:?}");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).context("fuzz/Cargo.toml")?;
    for target in TARGETS {
        let line = format!("path = \"fuzz_targets/{target}.rs\"");
        ensure!(manifest.contains(&line), "fuzz/Cargo.toml has no [[bin]] with {line}");
        let seeds = names(&folder.join("corpus").join(target)).unwrap_or_default();
        ensure!(!seeds.is_empty(), "fuzz/corpus/{target} has no seeds");
    }
    Ok(())
}

/// The names of what is in a folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let name = |entry: std::io::Result<fs::DirEntry>| {
        Ok(entry?.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

fn chosen(named: &[String]) -> Result<Vec<&str>> {
    if named.is_empty() {
        return Ok(TARGETS.to_vec());
    }
    if let Some(unknown) = named.iter().find(|name| !TARGETS.contains(&name.as_str())) {
        bail!("there is no target {unknown:?}; there are: {}", TARGETS.join(", "));
    }
    Ok(named.iter().map(String::as_str).collect())
}

/// The seconds of each of `count` targets, of which `lanes` run at once: whole ones, and so rather
/// a little more than `seconds` in total than less.
fn share(seconds: u64, count: usize, lanes: usize) -> u64 {
    let rounds = u64::try_from(count.div_ceil(lanes.max(1))).unwrap_or(u64::MAX);
    seconds.div_ceil(rounds.max(1)).max(1)
}

/// Builds all targets. A target is named, also where it is this machine's: that tells what is
/// fuzzed from build scripts and macros.
fn build(root: &Path) -> Result<Place> {
    let sources = root.join("fuzz");
    // The workspace does not know this crate, so nobody else looks.
    run_command(&mut command(&sources, "cargo fmt --check"))?;
    let finds = target::folder(root)?.join("fuzz");
    let host = host(root)?;
    let mut build = command(&sources, "cargo build --release --bins --target");
    build.arg(&host).arg("--target-dir").arg(&finds).env("RUSTC_WRAPPER", sources.join(RUSTC));
    run_command(&mut build)?;
    Ok(Place { sources, binaries: finds.join(host).join("release"), finds })
}

fn host(root: &Path) -> Result<String> {
    let version = String::from_utf8(output(&mut command(root, "rustc -vV"))?)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}

/// Runs `one` on every target, `lanes` at once. The outcomes are in the order of the targets.
fn run_all(
    targets: &[&str],
    lanes: usize,
    one: impl Fn(&str) -> Result<Outcome> + Sync,
) -> Result<Vec<Outcome>> {
    let waiting: Mutex<VecDeque<_>> = Mutex::new(targets.iter().enumerate().collect());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some((at, target)) = next() {
                    let outcome = one(target).with_context(|| format!("target {target}"));
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn fuzz(place: &Place, target: &str, seconds: u64) -> Result<Outcome> {
    let corpus = place.finds.join("corpus").join(target);
    let artifacts = place.finds.join("artifacts").join(target);
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    let binary = place.binaries.join(target);
    let mut fuzz = Command::new(&binary);
    fuzz.args(BOUNDS)
        .arg(format!("-max_total_time={seconds}"))
        // A folder, by the slash at its end.
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(corpus)
        .arg(place.sources.join("corpus").join(target))
        // What was found once and is not mended is found again.
        .arg(artifacts);
    let output = fuzz.output().with_context(|| format!("cannot start {}", binary.display()))?;
    Ok(outcome(target, &binary, &output))
}

fn outcome(target: &str, binary: &Path, output: &Output) -> Outcome {
    let said = String::from_utf8_lossy(&output.stderr);
    let executions = number_after(&said, "stat::number_of_executed_units: ");
    let failure = if !output.status.success() {
        Some(failure(&said, binary))
    } else if executions == 0 {
        Some(format!("it tried nothing:\n{}", tail(&said)))
    } else {
        None
    };
    Outcome { target: target.to_owned(), executions, edges: number_after(&said, " cov: "), failure }
}

/// What was said, and how to see it again.
fn failure(said: &str, binary: &Path) -> String {
    let artifact = said.lines().find_map(|line| line.split_once("Test unit written to "));
    let again = match artifact {
        Some((_, path)) => format!("to see it again: {} {path}", binary.display()),
        None => "no input was written".to_owned(),
    };
    format!("{}\n{again}", tail(said))
}

fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// The number behind the last place where `text` stands; 0 when it stands nowhere.
fn number_after(said: &str, text: &str) -> u64 {
    let rest = said.rsplit_once(text).map_or("", |(_, rest)| rest).trim_start();
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

fn report(outcomes: &[Outcome]) -> Result<()> {
    println!("\n{:<16}{:>12}{:>10}  verdict", "target", "executions", "edges");
    for Outcome { target, executions, edges, failure } in outcomes {
        let verdict = if failure.is_some() { "FAILED" } else { "ok" };
        println!("{target:<16}{executions:>12}{edges:>10}  {verdict}");
    }
    let mut failed = Vec::new();
    for outcome in outcomes {
        if let Some(failure) = &outcome.failure {
            println!("\n== {}\n{failure}", outcome.target);
            failed.push(outcome.target.as_str());
        }
    }
    ensure!(failed.is_empty(), "fuzzing found what is wrong in: {}", failed.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn every_target_is_listed_and_has_seeds() {
        check_list(&crate::repository_root().unwrap()).unwrap();
    }

    #[test]
    fn the_time_is_shared_among_those_that_run_at_once() {
        assert_eq!(share(30, 16, 2), 4);
        assert_eq!(share(30, 20, 2), 3);
        assert_eq!(share(30, 1, 8), 30);
        assert_eq!(share(3, 16, 2), 1);
    }

    #[test]
    fn a_target_that_is_not_there_is_refused_with_those_that_are() {
        let error = chosen(&["keys".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("\"keys\"") && error.contains("key, "), "{error}");
        assert_eq!(chosen(&["url".to_owned()]).unwrap(), ["url"]);
        assert_eq!(chosen(&[]).unwrap(), TARGETS);
    }

    fn ended(code: i32, said: &str) -> Outcome {
        let (status, stderr) = (ExitStatus::from_raw(code << 8), said.into());
        outcome("key", Path::new("bin/key"), &Output { status, stdout: Vec::new(), stderr })
    }

    #[test]
    fn what_was_tried_and_reached_is_read() {
        let said = "#2\tINITED cov: 5 ft: 6\n#77\tDONE   cov: 12 ft: 13\n\
                    stat::number_of_executed_units: 77\n";
        let (target, executions, edges) = ("key".to_owned(), 77, 12);
        assert_eq!(ended(0, said), Outcome { target, executions, edges, failure: None });
    }

    #[test]
    fn a_crash_says_how_to_see_it_again_and_nothing_tried_is_no_success() {
        let said = "thread panicked\nartifact_prefix='a/'; Test unit written to a/crash-1\n";
        let failure = ended(77, said).failure.unwrap();
        assert!(failure.contains("panicked"), "{failure}");
        assert!(failure.ends_with("to see it again: bin/key a/crash-1"), "{failure}");
        assert!(ended(0, "").failure.is_some());
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_targets() {
        let one = |target: &str| Ok(Outcome { target: target.to_owned(), ..Outcome::default() });
        let outcomes = run_all(&["a", "b", "c", "d"], 3, one).unwrap();
        let order: Vec<_> = outcomes.iter().map(|outcome| outcome.target.as_str()).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
        assert!(run_all(&["a"], 2, |_| bail!("no")).is_err());
    }
}

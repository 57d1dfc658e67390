//! `cargo xtask`: what a person and CI both run on this repository.
//!
//! | file | what it holds |
//! |---|---|
//! | `steps.rs` | `test` and `ci`: the steps, in order |
//! | `beside.rs` | steps that run while another one waits |
//! | `needs/` | what the tests need on this machine, and how to install it |
//! | `fuzz.rs` | `fuzz`: building and running the targets in `fuzz/` |
//! | `torture.rs` | `torture`: what it has to find here, and the program itself |
//! | `light.rs` | the check that the bare library stays light |
//! | `tidy/` | the rules of this repository that no compiler knows, one file each |
//! | `manifest.rs` | reading `Cargo.toml` and `Cargo.lock` by lines |
//! | `target.rs` | where the target folder is |
//! | `commit.rs` | which source a run is made of |
//! | `command.rs` | starting other programs |

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command")]

mod beside;
mod command;
mod commit;
mod fuzz;
mod light;
mod manifest;
mod needs;
mod steps;
mod target;
mod tidy;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--quick]   install what is missing, then run every check and test
                   (--quick leaves out features alone, weight, torture, fuzzing and documentation)
  ci               what CI runs: the same as test
  step NAME...     only these steps of test
  bench [NAME]     measure what tenure costs, each figure beside what it is measured against
                   (only the sections whose name contains NAME); without a name, also write the
                   table and its charts into docs/benchmarks
  fuzz [--seconds N] [TARGET...]
                   feed every decoder, or only those named, with what nobody thought of
                   (for N seconds in total; 30 when nothing is said)
  torture [OPTION]...
                   try out stores under faults, on real servers: --store NAME[,NAME], --minutes N
                   or --seconds N for each, --seed S; --cards writes the guarantee cards, of
                   300 faults and 200,000 operations for each store at the least;
                   --planted tries out known bugs and --control set-ups that must fail; --help
  install          only install what is missing
  tidy             only the rules of this repository that no compiler knows
  help             this text";

/// The exit code for a wrong command line (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;

/// Tells the benchmark where to write the table and its charts.
const BENCH_DOCS: &str = "TENURE_BENCH_DOCS";

/// Whose servers the benchmark starts, besides tenure's own.
const BENCH_STORES: [&str; 5] = ["redis", "postgres", "nats", "etcd", "object"];

/// Tells everything where its files go; and a folder for them that is on a disk, and that the user
/// of PostgreSQL may enter.
const FILES: (&str, &str) = ("TMPDIR", "/var/tmp");

#[derive(Debug, PartialEq, Eq)]
enum Task {
    Test { quick: bool },
    Steps { names: Vec<String> },
    Bench { sections: Vec<String> },
    Fuzz { seconds: u64, targets: Vec<String> },
    Torture { options: Vec<String> },
    Install,
    Tidy,
    Help,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(task) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(EXIT_USAGE);
    };
    match run(&task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Option<Task> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] | ["ci"] => Some(Task::Test { quick: false }),
        ["test", "--quick"] => Some(Task::Test { quick: true }),
        ["step", _, ..] => Some(Task::Steps { names: arguments[1..].to_vec() }),
        ["bench", sections @ ..] if sections.iter().all(|name| !name.starts_with('-')) => {
            let sections = sections.iter().map(|&name| name.to_owned()).collect();
            Some(Task::Bench { sections })
        }
        ["fuzz", "--seconds", seconds, targets @ ..] => {
            parse_fuzz(seconds.parse().ok().filter(|seconds| *seconds > 0)?, targets)
        }
        ["fuzz", targets @ ..] => parse_fuzz(fuzz::SECONDS, targets),
        // What it is told is for the program to judge.
        ["torture", options @ ..] => {
            let options = options.iter().map(|&option| option.to_owned()).collect();
            Some(Task::Torture { options })
        }
        ["install"] => Some(Task::Install),
        ["tidy"] => Some(Task::Tidy),
        ["help" | "--help" | "-h"] => Some(Task::Help),
        _ => None,
    }
}

fn parse_fuzz(seconds: u64, targets: &[&str]) -> Option<Task> {
    let are_names = targets.iter().all(|name| !name.starts_with('-'));
    let targets = targets.iter().map(|&name| name.to_owned()).collect();
    are_names.then_some(Task::Fuzz { seconds, targets })
}

fn run(task: &Task) -> Result<()> {
    match task {
        Task::Test { quick } => steps::run(&repository_root()?, *quick),
        Task::Steps { names } => steps::run_named(&repository_root()?, names),
        Task::Bench { sections } => bench(&repository_root()?, sections),
        Task::Fuzz { seconds, targets } => fuzz::run(&repository_root()?, *seconds, targets),
        Task::Torture { options } => torture::run(&repository_root()?, options),
        Task::Install => needs::install(&repository_root()?),
        Task::Tidy => tidy::run(&repository_root()?),
        Task::Help => {
            println!("{USAGE}");
            Ok(())
        }
    }
}

/// What is measured is installed and built first: the servers, and the command.
fn bench(root: &Path, sections: &[String]) -> Result<()> {
    needs::install_for(root, &BENCH_STORES)?;
    command::run(&mut command::command(root, "cargo build --release -p tenure-cli"))?;
    let words = "cargo bench -p tenure-testkit --features servers --bench table --";
    let mut bench = command::command(root, words);
    bench.args(sections).envs(commit::told(root));
    if std::env::var_os(FILES.0).is_none() {
        bench.env(FILES.0, FILES.1);
    }
    // Part of a run is not published; whoever looks at charts meanwhile names another folder.
    if sections.is_empty() && std::env::var_os(BENCH_DOCS).is_none() {
        bench.env(BENCH_DOCS, root.join("docs/benchmarks"));
    }
    command::run(&mut bench)
}

/// Looked up when it runs, not when it is compiled: clones may share one target folder.
fn repository_root() -> Result<PathBuf> {
    let start = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::current_dir().context("no current folder")?,
    };
    start
        .ancestors()
        .find(|folder| folder.join("xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is not inside this repository", start.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<Task> {
        let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(&arguments)
    }

    #[test]
    fn ci_runs_what_test_runs() {
        assert_eq!(parsed("ci"), parsed("test"));
        assert_eq!(parsed("test"), Some(Task::Test { quick: false }));
        assert_eq!(parsed("test --quick"), Some(Task::Test { quick: true }));
    }

    #[test]
    fn fuzzing_takes_a_time_and_targets() {
        let task = |seconds, targets: &[&str]| {
            let targets = targets.iter().map(|&target| target.to_owned()).collect();
            Some(Task::Fuzz { seconds, targets })
        };
        assert_eq!(parsed("fuzz"), task(fuzz::SECONDS, &[]));
        assert_eq!(parsed("fuzz url key"), task(fuzz::SECONDS, &["url", "key"]));
        assert_eq!(parsed("fuzz --seconds 5 url"), task(5, &["url"]));
    }

    #[test]
    fn torture_is_told_what_it_was_told() {
        let options = ["--seed", "-1"].map(str::to_owned).to_vec();
        assert_eq!(parsed("torture --seed -1"), Some(Task::Torture { options }));
    }

    #[test]
    fn anything_else_is_refused() {
        for line in [
            "",
            "bench --x",
            "fuzz --seconds",
            "fuzz --seconds 0",
            "fuzz --seconds many",
            "fuzz --second 5",
            "fuzz url --seconds 5",
            "tests",
            "ci --quick",
            "test --quik",
            "step",
            "tidy now",
            "test --quick --quick",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}

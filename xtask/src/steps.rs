//! `cargo xtask test` and `cargo xtask ci`: every check, in order, up to the first failure.

use std::fs;
use std::mem;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::beside::Beside;
use crate::command::{command, run as run_command};
use crate::{fuzz, light, manifest, needs, target, tidy};

#[derive(Debug)]
struct Step {
    name: &'static str,
    when: When,
    run: fn(&Path) -> Result<()>,
}

#[derive(Debug, PartialEq, Eq)]
enum When {
    Always,
    /// Only with `--quick`.
    Quick,
    /// Not with `--quick`.
    Full,
    /// Nor then, and not in its turn: it only takes processors, and runs beside the next step that
    /// is not of this kind, with what that one leaves of them.
    Beside,
}

impl When {
    fn is_meant(&self, quick: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Quick => quick,
            Self::Full | Self::Beside => !quick,
        }
    }
}

const STEPS: &[Step] = &[
    Step { name: "install what is missing", when: When::Always, run: needs::install },
    Step { name: "format", when: When::Always, run: format },
    Step { name: "tidy", when: When::Always, run: tidy::run },
    Step { name: "lint", when: When::Quick, run: lint },
    Step { name: "protocol buffers", when: When::Always, run: protos },
    Step { name: "a light library", when: When::Full, run: light::check },
    Step { name: "build the tests", when: When::Always, run: build_tests },
    // First of these, because it is built into a folder of its own: the tests need the other one
    // when they begin.
    Step { name: "build the fuzz targets", when: When::Beside, run: fuzz::prepare },
    Step { name: "lint", when: When::Beside, run: lint },
    Step { name: "each feature alone", when: When::Beside, run: features },
    Step { name: "documentation", when: When::Beside, run: documentation },
    Step { name: "tests", when: When::Always, run: tests },
    Step { name: "two stores under faults", when: When::Full, run: torture },
    Step { name: "fuzzing", when: When::Full, run: fuzzing },
];

const TEST_THREADS: &str = "6";

/// How steps that run beside another one are started, by their names.
type Start = fn(&Path, &[&str]) -> Result<Beside>;

pub(crate) fn run(root: &Path, quick: bool) -> Result<()> {
    let steps: Vec<_> = STEPS.iter().filter(|step| step.when.is_meant(quick)).collect();
    run_steps(&steps, root, Beside::start)
}

/// Only these, one after another.
pub(crate) fn run_named(root: &Path, names: &[String]) -> Result<()> {
    for name in names {
        let step = STEPS.iter().find(|step| step.name == name);
        let step = step.with_context(|| {
            let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            format!("there is no step {name:?}; there are: {}", names.join(", "))
        })?;
        run_steps(&[&Step { when: When::Always, ..*step }], root, Beside::start)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how long a step took matters to a person only")]
fn run_steps(steps: &[&Step], root: &Path, start: Start) -> Result<()> {
    let mut times = Vec::new();
    let mut outcome = Ok(());
    let mut aside = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        if step.when == When::Beside {
            aside.push(step.name);
            continue;
        }
        println!("\n== {}/{} {}", index + 1, steps.len(), step.name);
        let began = Instant::now();
        outcome = run_beside(step, root, &mem::take(&mut aside), start);
        times.push((step.name, began.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    print_times(&times);
    if outcome.is_ok() {
        println!("all {} steps passed", steps.len());
    }
    outcome
}

fn run_beside(step: &Step, root: &Path, aside: &[&str], start: Start) -> Result<()> {
    let beside = if aside.is_empty() { None } else { Some(start(root, aside)?) };
    let done = (step.run)(root).with_context(|| format!("FAILED at step `{}`", step.name));
    let ended = beside.map_or(Ok(()), Beside::end);
    done.and(ended)
}

fn print_times(times: &[(&str, Duration)]) {
    println!("\n== times");
    for (name, time) in times {
        println!("{:>8.1} s  {name}", time.as_secs_f64());
    }
}

fn format(root: &Path) -> Result<()> {
    run_command(&mut command(root, "cargo fmt --all --check"))
}

fn lint(root: &Path) -> Result<()> {
    let words = "cargo clippy --workspace --all-targets --all-features -- -D warnings";
    run_command(&mut command(root, words))
}

/// By the rules that stand in their folder.
fn protos(root: &Path) -> Result<()> {
    for words in [&["lint"][..], &["format", "--diff", "--exit-code"]] {
        let folder = root.join("crates/tenure-api/proto");
        run_command(needs::buf(root)?.args(words).current_dir(folder))?;
    }
    Ok(())
}

/// Lints rather than only checks, because what one feature leaves unused is a warning.
fn features(root: &Path) -> Result<()> {
    let bare = "cargo clippy -p tenure --no-default-features";
    run_command(&mut command(root, &format!("{bare} -- -D warnings")))?;
    let path = root.join("crates/tenure/Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let features = manifest::table(&text, "features");
    ensure!(!features.is_empty(), "no [features] found in {}", path.display());
    // What begins with an underscore is what several features share, and is not for use alone.
    for feature in features.iter().filter(|feature| !feature.key.starts_with('_')) {
        let words = format!("{bare} --features {} -- -D warnings", feature.key);
        run_command(&mut command(root, &words))?;
    }
    Ok(())
}

const TESTS: &str = "cargo test --workspace --all-features";

/// What was built is written to the disk here, and not while tests wait for that: a lease of a
/// second ends when its store stands still for so long.
fn build_tests(root: &Path) -> Result<()> {
    run_command(&mut command(root, &format!("{TESTS} --no-run")))?;
    run_command(&mut command(root, "sync"))
}

/// The examples in the documentation are among them. Most tests wait, for a lease to end or for a
/// server to start, and hardly need a processor: more run at once than there are processors.
fn tests(root: &Path) -> Result<()> {
    let mut tests = command(root, TESTS);
    run_command(tests.env("RUST_TEST_THREADS", TEST_THREADS))
}

/// A minute in all, on two stores that chance chooses by a seed, which is printed. The tests have
/// built the program: it is not built anew, with other features.
fn torture(root: &Path) -> Result<()> {
    let program = target::folder(root)?.join("debug/torture");
    let mut torture = Command::new(program);
    torture.args(["--stores", "2", "--seconds", "60"]).current_dir(root);
    run_command(&mut torture)
}

fn fuzzing(root: &Path) -> Result<()> {
    fuzz::run(root, fuzz::SECONDS, &[])
}

fn documentation(root: &Path) -> Result<()> {
    let mut doc = command(root, "cargo doc --workspace --no-deps --all-features");
    run_command(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(_: &Path) -> Result<()> {
        Ok(())
    }

    fn fail(_: &Path) -> Result<()> {
        anyhow::bail!("broken")
    }

    fn unreachable(_: &Path) -> Result<()> {
        panic!("a step ran that should not have")
    }

    fn start_none(_: &Path, names: &[&str]) -> Result<Beside> {
        anyhow::bail!("beside: {names:?}")
    }

    fn outcome(steps: &[Step]) -> String {
        let steps: Vec<_> = steps.iter().collect();
        let outcome = run_steps(&steps, Path::new("/"), start_none);
        outcome.err().map_or_else(|| "passed".to_owned(), |error| format!("{error:#}"))
    }

    #[test]
    fn the_first_failure_ends_the_run_and_is_named() {
        let steps = [
            Step { name: "one", when: When::Always, run: pass },
            Step { name: "two", when: When::Always, run: fail },
            Step { name: "three", when: When::Always, run: unreachable },
        ];
        assert_eq!(outcome(&steps), "FAILED at step `two`: broken");
    }

    #[test]
    fn what_runs_beside_a_step_is_what_stands_before_it() {
        let steps = [
            Step { name: "one", when: When::Always, run: pass },
            Step { name: "two", when: When::Beside, run: unreachable },
            Step { name: "three", when: When::Beside, run: unreachable },
            Step { name: "four", when: When::Always, run: unreachable },
        ];
        assert_eq!(outcome(&steps[..1]), "passed");
        assert_eq!(outcome(&steps), r#"beside: ["two", "three"]"#);
    }

    #[test]
    fn nothing_is_left_to_run_beside_nothing() {
        assert!(STEPS.last().is_some_and(|step| step.when != When::Beside));
    }

    #[test]
    fn a_step_that_is_not_there_is_refused() {
        let error = run_named(Path::new("/"), &["lent".into()]).unwrap_err();
        assert!(error.to_string().starts_with("there is no step \"lent\"; there are: install"));
    }

    #[test]
    fn quick_leaves_out_only_what_is_marked_and_every_check_is_in_a_whole_run() {
        let names = |quick| {
            let steps = STEPS.iter().filter(move |step| step.when.is_meant(quick));
            steps.map(|step| step.name).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!((names(true).len(), names(false).len()), (7, 13));
        assert!(names(true).is_subset(&names(false)));
    }
}

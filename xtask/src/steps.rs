//! `cargo xtask test` and `cargo xtask ci`: every check, in order, up to the first failure.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

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
    /// Not with `--quick`.
    Full,
}

const STEPS: &[Step] = &[
    Step { name: "install what is missing", when: When::Always, run: needs::install },
    Step { name: "format", when: When::Always, run: format },
    Step { name: "tidy", when: When::Always, run: tidy::run },
    Step { name: "lint", when: When::Always, run: lint },
    Step { name: "protocol buffers", when: When::Always, run: protos },
    Step { name: "each feature alone", when: When::Full, run: features },
    Step { name: "a light library", when: When::Full, run: light::check },
    Step { name: "build the tests", when: When::Always, run: build_tests },
    Step { name: "tests", when: When::Always, run: tests },
    Step { name: "two stores under faults", when: When::Full, run: torture },
    Step { name: "fuzzing", when: When::Full, run: fuzzing },
    Step { name: "documentation", when: When::Full, run: documentation },
];

const TEST_THREADS: &str = "6";

pub(crate) fn run(root: &Path, quick: bool) -> Result<()> {
    run_steps(STEPS, root, quick)
}

#[expect(clippy::disallowed_methods, reason = "how long a step took matters to a person only")]
fn run_steps(steps: &[Step], root: &Path, quick: bool) -> Result<()> {
    let chosen: Vec<_> = steps.iter().filter(|step| !quick || step.when == When::Always).collect();
    let mut times = Vec::new();
    let mut outcome = Ok(());
    for (index, step) in chosen.iter().enumerate() {
        println!("\n== {}/{} {}", index + 1, chosen.len(), step.name);
        let start = Instant::now();
        outcome = (step.run)(root).with_context(|| format!("FAILED at step `{}`", step.name));
        times.push((step.name, start.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    print_times(&times);
    if outcome.is_ok() {
        println!("all {} steps passed", chosen.len());
    }
    outcome
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

    #[test]
    fn the_first_failure_ends_the_run_and_is_named() {
        let steps = [
            Step { name: "one", when: When::Always, run: pass },
            Step { name: "two", when: When::Always, run: fail },
            Step { name: "three", when: When::Always, run: unreachable },
        ];
        let error = run_steps(&steps, Path::new("/"), false).unwrap_err();
        assert_eq!(format!("{error:#}"), "FAILED at step `two`: broken");
    }

    #[test]
    fn quick_leaves_out_only_what_is_marked() {
        let steps = [
            Step { name: "one", when: When::Full, run: unreachable },
            Step { name: "two", when: When::Always, run: pass },
        ];
        run_steps(&steps, Path::new("/"), true).unwrap();
        let left_out: Vec<_> = STEPS.iter().filter(|step| step.when == When::Full).collect();
        assert_eq!(left_out.len(), 5, "{left_out:?}");
    }
}

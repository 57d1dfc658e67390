//! Steps that run beside another one: a process of ours, with what is left of the processors. Its
//! words are shown when it has ended, in one piece.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::command::command;
use crate::target;

/// Runs only while a processor has nothing else to do.
const IDLE: &str = "chrt --idle 0";

#[derive(Debug)]
pub(crate) struct Beside {
    names: String,
    child: Child,
    said: PathBuf,
}

impl Beside {
    /// `cargo xtask step NAME...`, for all of these.
    pub(crate) fn start(root: &Path, names: &[&str]) -> Result<Self> {
        let ourselves = std::env::current_exe().context("no path of this program")?;
        let mut steps = command(root, IDLE);
        steps.arg(ourselves).arg("step").args(names);
        // It finds the repository by this, as we did.
        steps.env("CARGO_MANIFEST_DIR", root.join("xtask"));
        Self::run(&names.join(", "), steps, target::folder(root)?.join("beside.log"))
    }

    fn run(names: &str, mut steps: Command, said: PathBuf) -> Result<Self> {
        println!("beside it: {names}");
        let file = File::create(&said).with_context(|| format!("{}", said.display()))?;
        // In a group of its own, so that it can be stopped with all that it has started.
        steps.process_group(0).stdout(file.try_clone()?).stderr(file);
        let child = steps.spawn().context("cannot start the steps beside")?;
        Ok(Self { names: names.to_owned(), child, said })
    }

    /// Waits for them, and fails when one did.
    pub(crate) fn end(mut self) -> Result<()> {
        let status = self.child.wait().context("cannot wait for the steps beside")?;
        let said = fs::read(&self.said).with_context(|| format!("{}", self.said.display()))?;
        println!("\n== beside it: {}\n{}", self.names, String::from_utf8_lossy(&said));
        ensure!(status.success(), "FAILED beside: one of `{}` ({status})", self.names);
        Ok(())
    }

    /// Stops them: what they would say is of no interest any more.
    pub(crate) fn stop(mut self) -> Result<()> {
        kill_process_group(Pid::from_child(&self.child), Signal::KILL)
            .context("cannot stop the steps beside")?;
        self.child.wait().context("cannot wait for the steps beside").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(words: &[&str], folder: &Path) -> Beside {
        let mut steps = Command::new(words[0]);
        steps.args(&words[1..]);
        Beside::run("one, two", steps, folder.join("log")).unwrap()
    }

    #[test]
    fn a_failure_beside_is_one() {
        let folder = tempfile::tempdir().unwrap();
        started(&["true"], folder.path()).end().unwrap();
        let error = started(&["false"], folder.path()).end().unwrap_err().to_string();
        assert_eq!(error, "FAILED beside: one of `one, two` (exit status: 1)");
    }

    #[test]
    fn what_it_has_started_is_stopped_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
        let beside = started(&["sh", "-c", &script], folder.path());
        while !pid.exists() {
            std::thread::yield_now();
        }
        let pid = fs::read_to_string(pid).unwrap();
        beside.stop().unwrap();
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z"), "{state}");
    }
}

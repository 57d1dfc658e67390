//! Steps that run beside another one: a process of ours, with what is left of the processors. Its
//! words are shown when it has ended, in one piece.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};

use crate::command::{command, run};
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
        steps.stdout(file.try_clone()?).stderr(file);
        let child = steps.spawn().context("cannot start the steps beside")?;
        Ok(Self { names: names.to_owned(), child, said })
    }

    /// Waits for them and shows what they said; it fails when one did. What they wrote is on the
    /// disk then, and not written while the next step wants to measure something.
    pub(crate) fn end(mut self) -> Result<()> {
        let status = self.child.wait().context("cannot wait for the steps beside")?;
        let said = fs::read(&self.said).with_context(|| format!("{}", self.said.display()))?;
        println!("\n== beside it: {}\n{}", self.names, String::from_utf8_lossy(&said));
        run(&mut command(Path::new("/"), "sync"))?;
        ensure!(status.success(), "FAILED beside: one of `{}` ({status})", self.names);
        Ok(())
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
}

//! Processes that are this program again, and end with it.

use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// This program, even when its file was replaced since it started.
const OURSELVES: &str = "/proc/self/exe";

/// What this process is to do, if it was started under the hidden name `role`: it is told on
/// stdin.
pub(crate) fn job<T: DeserializeOwned>(role: &str) -> Option<Result<T>> {
    if std::env::args_os().nth(1)? != role {
        return None;
    }
    let mut text = String::new();
    let told = io::stdin().read_to_string(&mut text).context("nothing was said on stdin");
    Some(told.and_then(|_| serde_json::from_str(&text).context("no job on stdin")))
}

/// Ends this process when the one with the id `parent` ends.
pub(crate) fn hold_to(parent: i32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    ensure!(getppid() == Pid::from_raw(parent), "whoever started this process has gone");
    Ok(())
}

/// The id of this process.
pub(crate) fn own_id() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// Starts this program again under the hidden name `role`, and tells it its job.
///
/// To be called from a thread that lasts as long as the process: the death signal comes when the
/// thread goes.
pub(crate) async fn start(
    role: &str,
    job: &impl Serialize,
    environment: &[(OsString, OsString)],
) -> Result<Child> {
    let mut child = Command::new(OURSELVES)
        .arg0("torture")
        .arg(role)
        .envs(environment.iter().cloned())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("this program cannot be started again")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(job)?).await?;
        stdin.shutdown().await?;
    }
    Ok(child)
}

/// Sends a signal to a process that was not waited for yet.
pub(crate) fn signal(child: &Child, signal: Signal) {
    // One that was waited for has no number any more, and so nobody else is hit.
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = id.and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The exit code of a role.
pub(crate) fn exit(outcome: &Result<()>) -> ExitCode {
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! The workers: started, paused, killed and started again.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use tenure::clock::{Clock, Moment, SystemClock};
use tenure_check::{Record, Recorder, What};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::folder;
use super::worker::{Job, WORKER};
use crate::chance::{below, between};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ourselves::OURSELVES;

/// How many workers are started at the most, for each that is to work at a time.
const STARTS_MAX: u64 = 100;

/// What all workers have in common.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) url: String,
    pub(super) namespace: String,
    pub(super) folder: PathBuf,
    pub(super) workers: u16,
    pub(super) keys: u16,
    pub(super) ttl: Duration,
    pub(super) until: Moment,
}

#[derive(Debug)]
struct Worker {
    number: u64,
    child: Child,
    /// When it may go on, if it was stopped.
    resumes: Option<Moment>,
}

/// How often what was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deeds {
    pub(super) started: u64,
    pub(super) kills: u64,
    pub(super) pauses: u64,
}

/// The workers that run. Dropping it kills them and returns when they are gone; the kernel kills
/// them when this process ends.
#[derive(Debug)]
pub(super) struct Fleet {
    plan: Plan,
    workers: Vec<Worker>,
    log: Recorder,
    next_fault: Moment,
    pub(super) deeds: Deeds,
}

impl Fleet {
    /// Starts the workers.
    pub(super) async fn start(plan: Plan) -> Result<Self, Failure> {
        let log = Recorder::append(&folder::history(&plan.folder, 0), 0).map_err(|error| {
            Failure::caused(Exit::Internal, "the history cannot be written", &error)
        })?;
        let next_fault = SystemClock.now() + between(plan.ttl / 4, plan.ttl / 2);
        let mut fleet =
            Self { plan, workers: Vec::new(), log, next_fault, deeds: Deeds::default() };
        for _ in 0..fleet.plan.workers {
            fleet.enlist().await?;
        }
        Ok(fleet)
    }

    async fn enlist(&mut self) -> Result<(), Failure> {
        self.deeds.started += 1;
        let number = self.deeds.started;
        let child = spawn(&self.plan, number)
            .await
            .map_err(|error| Failure::caused(Exit::Internal, "no worker can be started", &error))?;
        self.workers.push(Worker { number, child, resumes: None });
        Ok(())
    }

    /// Does what is due: buries who has ended, starts others, and kills and pauses at random.
    pub(super) async fn tend(&mut self) -> Result<(), Failure> {
        let now = SystemClock.now();
        self.bury()?;
        self.resume(|at| at <= now)?;
        if now >= self.next_fault {
            self.next_fault = now + between(self.plan.ttl / 4, self.plan.ttl * 3 / 4);
            self.strike(now)?;
        }
        let most = u64::from(self.plan.workers) * STARTS_MAX;
        let is_worth_it = now + self.plan.ttl / 10 < self.plan.until;
        while is_worth_it
            && self.workers.len() < usize::from(self.plan.workers)
            && self.deeds.started < most
        {
            self.enlist().await?;
        }
        Ok(())
    }

    /// Waits for the workers to end, no longer than until `latest`. One that does not is stuck, and
    /// its last question stays without an answer in the history.
    pub(super) async fn dismiss(&mut self, latest: Moment) -> Result<(), Failure> {
        self.resume(|_| true)?;
        while !self.workers.is_empty() && SystemClock.now() < latest {
            self.bury()?;
            SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(5)).await;
        }
        for worker in &mut self.workers {
            let _ = worker.child.start_kill();
            let _ = worker.child.wait().await;
        }
        self.workers.clear();
        Ok(())
    }

    /// Takes note of those who have ended.
    fn bury(&mut self) -> Result<(), Failure> {
        let mut left = Vec::new();
        for mut worker in std::mem::take(&mut self.workers) {
            match worker.child.try_wait().ok().flatten() {
                None => left.push(worker),
                Some(status) if status.signal() == Some(Signal::KILL.as_raw()) => {
                    self.deeds.kills += 1;
                    self.note(worker.number, What::Killed)?;
                }
                Some(status) if status.success() => {}
                Some(status) => {
                    let told = folder::complaint(&self.plan.folder, worker.number);
                    let text = std::fs::read_to_string(told)
                        .unwrap_or_else(|_| format!("a worker ended with {status}"));
                    return Err(Failure::new(Exit::of_command(status), text));
                }
            }
        }
        self.workers = left;
        Ok(())
    }

    fn resume(&mut self, is_due: impl Fn(Moment) -> bool) -> Result<(), Failure> {
        for place in 0..self.workers.len() {
            if self.workers[place].resumes.is_some_and(&is_due) {
                self.workers[place].resumes = None;
                self.send(place, Signal::CONT);
                self.note(self.workers[place].number, What::Resumed)?;
            }
        }
        Ok(())
    }

    /// Kills one of the workers, or stops it for longer than its lease can last.
    fn strike(&mut self, now: Moment) -> Result<(), Failure> {
        if self.workers.is_empty() {
            return Ok(());
        }
        let place = below(self.workers.len() as u64) as usize;
        let number = self.workers[place].number;
        if below(3) == 0 {
            self.note(number, What::Killed)?;
            self.send(place, Signal::KILL);
            return Ok(());
        }
        let stopped = self.workers.iter().filter(|worker| worker.resumes.is_some()).count();
        let may_stop = stopped < usize::from(self.plan.workers).div_ceil(2);
        if may_stop && self.workers[place].resumes.is_none() {
            self.deeds.pauses += 1;
            self.note(number, What::Paused)?;
            self.workers[place].resumes = Some(now + self.plan.ttl * 3 / 2);
            self.send(place, Signal::STOP);
        }
        Ok(())
    }

    fn send(&self, place: usize, signal: Signal) {
        // One that was waited for has no number any more, and so nobody else is hit.
        let id = self.workers[place].child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    fn note(&mut self, worker: u64, what: What) -> Result<(), Failure> {
        let at = SystemClock.now().as_nanos();
        let record = Record { worker, claim: 0, key: String::new(), at, what };
        self.log.write(&record).map_err(|error| {
            Failure::caused(Exit::Internal, "the history cannot be written", &error)
        })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // None of them may write into the folder when that is removed.
        for worker in &mut self.workers {
            let _ = worker.child.start_kill();
        }
        for worker in &mut self.workers {
            let id = worker.child.id().and_then(|id| i32::try_from(id).ok());
            if let Some(pid) = id.and_then(Pid::from_raw) {
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
        }
    }
}

async fn spawn(plan: &Plan, worker: u64) -> io::Result<Child> {
    let mut child = Command::new(OURSELVES)
        .arg0("tenure")
        .arg(WORKER)
        .env_remove("TENURE_STORE")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let job = Job {
        parent: getpid().as_raw_nonzero().get(),
        worker,
        url: plan.url.clone(),
        namespace: plan.namespace.clone(),
        folder: plan.folder.clone(),
        keys: plan.keys,
        ttl: plan.ttl,
        until: plan.until.as_nanos(),
    };
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(&job)?).await?;
        stdin.shutdown().await?;
    }
    Ok(child)
}

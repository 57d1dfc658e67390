//! A worker: takes locks and writes under them, and writes down all that it does.
//!
//! It is this program, started again under a name that no person types.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal,
};
use serde::{Deserialize, Serialize};
use tenure::clock::{Clock, Moment, SystemClock, within};
use tenure::{ErrorKind, Guard, Locks, Operation, stores};
use tenure_check::sink::Offered;
use tenure_check::{Recorder, What};
use tokio::runtime::Builder;

use super::folder;
use crate::chance::{below, between};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::spans::nanos;
use crate::{open, scratch};

/// The first word of a worker's command line.
pub(crate) const WORKER: &str = "--verify-worker";

/// How often a holder asks its guard.
const LOOK: Duration = Duration::from_millis(1);

/// How often it writes the answer down: one that is killed is not seen to have believed longer.
const NOTE: Duration = Duration::from_millis(25);

/// How much longer than its ttl a dead worker may keep its key.
pub(super) const ORPHAN_MAX: Duration = Duration::from_secs(1);

/// What a worker is to do. It is told on its stdin, because the URL may carry a password.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) parent: i32,
    pub(super) worker: u64,
    pub(super) url: String,
    pub(super) namespace: String,
    pub(super) folder: PathBuf,
    pub(super) keys: u16,
    pub(super) ttl: Duration,
    /// When to stop, in nanoseconds on the boot clock.
    pub(super) until: u64,
}

/// The name of one of the keys.
pub(super) fn key(number: u64) -> String {
    format!("k{number}")
}

/// Works, in a process that was started as a worker.
pub(crate) fn work() -> ExitCode {
    let mut text = String::new();
    let job = io::stdin().read_to_string(&mut text).ok();
    let job: Option<Job> = job.and_then(|_| serde_json::from_str(&text).ok());
    job.map_or(Exit::Usage, |job| start(&job)).into()
}

fn start(job: &Job) -> Exit {
    // Whoever started it may be killed, and nobody is to work on without.
    let tethered = set_parent_process_death_signal(Some(Signal::KILL));
    if tethered.is_err() || getppid() != Pid::from_raw(job.parent) {
        return Exit::Internal;
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let outcome = runtime
        .map_err(|error| Failure::caused(Exit::Internal, "no runtime could be started", &error))
        .and_then(|runtime| runtime.block_on(toil(job)));
    let Err(failure) = outcome else { return Exit::SUCCESS };
    let _ = std::fs::write(folder::complaint(&job.folder, job.worker), failure.to_string());
    failure.exit()
}

async fn toil(job: &Job) -> Result<(), Failure> {
    let store = stores::open(&job.url, Arc::new(SystemClock)).await;
    let store = store.map_err(|error| Failure::of_error(&error.during(Operation::Open)))?;
    let locks = scratch::locks(store, &job.namespace, job.ttl).await?;
    let log = Recorder::append(&folder::history(&job.folder, job.worker), job.worker)
        .map_err(|error| unwritten(&error))?;
    let mut turn = Turn { job, locks: &locks, log, claim: 0, key: String::new() };
    let until = Moment::from_nanos(job.until);
    while SystemClock.now() < until {
        turn.take(until.since(SystemClock.now())).await.map_err(|error| unwritten(&error))?;
    }
    open::flush(&locks).await;
    Ok(())
}

fn unwritten(error: &io::Error) -> Failure {
    Failure::caused(Exit::Internal, "the history cannot be written", error)
}

/// One claim after the other.
struct Turn<'a> {
    job: &'a Job,
    locks: &'a Locks,
    log: Recorder,
    claim: u64,
    key: String,
}

impl Turn<'_> {
    async fn take(&mut self, left: Duration) -> io::Result<()> {
        self.claim += 1;
        // One key is fought over more than the others.
        let number = if below(3) == 0 { 0 } else { below(self.job.keys.into()) };
        self.key = key(number);
        let ttl = self.job.ttl;
        // The longest is long enough to see that a dead worker's key is not free in time.
        let waits = [Duration::ZERO, Duration::ZERO, ttl / 4, ttl + ttl.max(2 * ORPHAN_MAX)];
        let wait = waits[below(4) as usize].min(left);
        self.note(What::Asked { ttl: nanos(ttl), wait: Some(nanos(wait)) })?;
        let request = self.locks.lock(&self.key).ttl(ttl).wait(wait);
        match request.acquire().await {
            Ok(guard) => self.hold(guard).await,
            Err(error) => {
                self.note(What::refusal(&error))?;
                sleep(between(LOOK, 5 * LOOK)).await;
                Ok(())
            }
        }
    }

    async fn hold(&mut self, guard: Guard) -> io::Result<()> {
        let fence = guard.fence().get();
        self.note(What::Granted { fence })?;
        let ttl = self.job.ttl;
        let length = match below(40) {
            0 => between(ttl / 2, ttl * 4 / 5),
            1..10 => between(5 * LOOK, 20 * LOOK),
            _ => between(Duration::ZERO, 3 * LOOK),
        };
        self.believe(&guard, Duration::ZERO).await?;
        self.write(fence).await?;
        self.believe(&guard, length).await?;
        // Without a look at the guard: a worker that was paused must be stopped by the fence.
        self.write(fence).await?;
        match below(100) {
            0 => {
                let _ = kill_process(getpid(), Signal::KILL);
                Ok(())
            }
            1..8 => {
                self.note(What::Dropped)?;
                drop(guard);
                // Right behind it, this process itself would say that the key is held, and not the
                // store, which may have given it to another and got it back by then.
                let _ = within(&SystemClock, ttl * 2, self.locks.flush()).await;
                Ok(())
            }
            _ => self.release(guard).await,
        }
    }

    /// Asks the guard again and again for so long, and writes down when it last said yes.
    async fn believe(&mut self, guard: &Guard, length: Duration) -> io::Result<()> {
        let end = SystemClock.now() + length;
        let mut last = None;
        let mut note_at = SystemClock.now() + NOTE;
        loop {
            let asked = SystemClock.now();
            if !guard.is_held() {
                break;
            }
            last = Some(asked);
            if asked >= end {
                break;
            }
            if asked >= note_at {
                self.note_at(asked, What::Believed)?;
                note_at = asked + NOTE;
            }
            sleep(LOOK).await;
        }
        match last {
            Some(at) => self.note_at(at, What::Believed),
            None => Ok(()),
        }
    }

    async fn write(&mut self, fence: u64) -> io::Result<()> {
        let Job { folder, worker, .. } = self.job;
        let written = folder::write_fenced(folder, *worker, &self.key, fence).await?;
        if let Some((at, Offered::Refused { .. })) = written {
            self.note_at(at, What::Refused { fence })?;
        }
        let over = folder::write_unfenced(folder, &self.key, fence)?;
        self.note(What::Unfenced { fence, over })
    }

    async fn release(&mut self, guard: Guard) -> io::Result<()> {
        self.note(What::ReleaseAsked)?;
        match guard.release().await {
            Ok(()) => self.note(What::Released),
            Err(error) if error.kind() == ErrorKind::Lost => self.note(What::Lost),
            Err(error) => self.note(What::ReleaseFailed { kind: format!("{:?}", error.kind()) }),
        }
    }

    fn note(&mut self, what: What) -> io::Result<()> {
        self.log.note(self.claim, &self.key, what)
    }

    fn note_at(&mut self, at: Moment, what: What) -> io::Result<()> {
        self.log.note_at(at.as_nanos(), self.claim, &self.key, what)
    }
}

async fn sleep(time: Duration) {
    SystemClock.sleep_until(SystemClock.now() + time).await;
}

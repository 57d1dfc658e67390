//! The workers: started, stopped, killed and started again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure_check::{Record, Recorder, What};
use tenure_testkit::faketime;
use tokio::process::Child;

use crate::clockwork::{self, Clockwork};
use crate::job::{self, Job, Style};
use crate::{tether, worker};

/// What all workers have in common.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Where each part of the network leads to.
    pub(crate) urls: Vec<String>,
    pub(crate) folder: PathBuf,
    pub(crate) workers: usize,
    pub(crate) tasks: u64,
    pub(crate) keys: u64,
    pub(crate) seed: u64,
    pub(crate) until: Moment,
    pub(crate) style: Style,
    pub(crate) planted: Option<String>,
    pub(crate) operation_timeout: Duration,
    /// The rates of boot clocks, in thousandths, which workers have by turns.
    pub(crate) rates: [u64; 3],
    /// The library that moves clocks, if any are to be moved.
    pub(crate) faketime: Option<PathBuf>,
}

#[derive(Debug)]
struct Worker {
    number: u64,
    pid: u32,
    child: Child,
    clockwork: Clockwork,
    /// When it may go on, if it was stopped.
    resumes: Option<Moment>,
    /// Whether its wall clock is wrong.
    is_astray: bool,
    /// Whether it was killed: nothing more can be done to it.
    is_killed: bool,
}

/// The workers that run, each in its place. Dropping it kills them, and so does the kernel when
/// this process ends.
#[derive(Debug)]
pub(crate) struct Fleet {
    plan: Plan,
    places: Vec<Option<Worker>>,
    rates: Vec<u32>,
    log: Recorder,
    started: u64,
    /// Which part of the network each worker has ever used.
    pub(crate) links: BTreeMap<u64, usize>,
    /// Those who did not end when their time was over.
    pub(crate) stuck: Vec<u64>,
}

impl Fleet {
    /// A fleet without any workers yet.
    pub(crate) fn new(plan: Plan) -> Result<Self> {
        let log = Recorder::append(&plan.folder.join("history-fleet.jsonl"), 0)?;
        let places = (0..plan.workers).map(|_| None).collect();
        let rates = vec![100; plan.workers];
        let (links, stuck) = (BTreeMap::new(), Vec::new());
        Ok(Self { plan, places, rates, log, started: 0, links, stuck })
    }

    /// Starts the workers, to work until then.
    pub(crate) async fn start(&mut self, until: Moment) -> Result<()> {
        self.plan.until = until;
        self.fill().await
    }

    /// How many have been started.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// Does what is due: buries who has ended, starts others, and lets those go on whose pause is
    /// over.
    pub(crate) async fn tend(&mut self) -> Result<()> {
        let now = SystemClock.now();
        self.bury()?;
        self.resume(|at| at <= now)?;
        if now + Duration::from_millis(500) < self.plan.until {
            self.fill().await?;
        }
        Ok(())
    }

    /// Waits for the workers to end, no longer than until `latest`. One that does not is stuck: it
    /// is ended and remembered, and its last question stays without an answer in the history.
    pub(crate) async fn dismiss(&mut self, latest: Moment) -> Result<()> {
        self.resume(|_| true)?;
        while self.places.iter().any(Option::is_some) && SystemClock.now() < latest {
            self.bury()?;
            SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(10)).await;
        }
        self.bury()?;
        for worker in self.places.iter_mut().flatten() {
            self.stuck.push(worker.number);
            let _ = worker.child.start_kill();
            let _ = worker.child.wait().await;
            faketime::clean(worker.pid);
        }
        self.places.fill_with(|| None);
        Ok(())
    }

    /// Kills a worker; says which.
    pub(crate) fn kill(&mut self, choice: u64) -> Result<Option<u64>> {
        let Some(place) = self.choose(choice, |worker| worker.resumes.is_none()) else {
            return Ok(None);
        };
        self.kill_at(place).map(Some)
    }

    /// Kills a worker, and gives its place a clock that runs at another rate; says which.
    pub(crate) fn rush(&mut self, choice: u64) -> Result<Option<u64>> {
        let is_rated = |worker: &Worker| {
            worker.resumes.is_none() && matches!(worker.clockwork, Clockwork::Rate(_))
        };
        let Some(place) = self.choose(choice, is_rated) else { return Ok(None) };
        self.rates[place] = clockwork::another_rate(self.rates[place], choice >> 32);
        self.kill_at(place).map(Some)
    }

    fn kill_at(&mut self, place: usize) -> Result<u64> {
        let Some(worker) = &mut self.places[place] else { bail!("nobody is there") };
        let number = worker.number;
        worker.is_killed = true;
        self.note(number, What::Killed)?;
        if let Some(worker) = &self.places[place] {
            tether::signal(&worker.child, Signal::KILL);
        }
        Ok(number)
    }

    /// Stops a worker for so long, unless too many stand still already; says which.
    pub(crate) fn pause(&mut self, choice: u64, length: Duration) -> Result<Option<u64>> {
        let stopped = self.places.iter().flatten().filter(|worker| worker.resumes.is_some());
        if stopped.count() * 3 >= self.plan.workers {
            return Ok(None);
        }
        let Some(place) = self.choose(choice, |worker| worker.resumes.is_none()) else {
            return Ok(None);
        };
        let Some(worker) = &mut self.places[place] else { return Ok(None) };
        let number = worker.number;
        worker.resumes = Some(SystemClock.now() + length);
        self.note(number, What::Paused)?;
        if let Some(worker) = &self.places[place] {
            tether::signal(&worker.child, Signal::STOP);
        }
        Ok(Some(number))
    }

    /// Lets the wall clock of a worker jump away from the truth; says which.
    pub(crate) fn step(&mut self, choice: u64) -> Result<Option<u64>> {
        let is_right =
            |worker: &Worker| worker.clockwork == Clockwork::Stepping && !worker.is_astray;
        let Some(place) = self.choose(choice, is_right) else { return Ok(None) };
        let Some(worker) = &mut self.places[place] else { return Ok(None) };
        clockwork::step(&self.plan.folder, worker.number, choice >> 32)?;
        worker.is_astray = true;
        Ok(Some(worker.number))
    }

    /// Lets the wall clock of a worker jump back, if the worker is still there.
    pub(crate) fn right(&mut self, number: u64) -> Result<()> {
        let mut workers = self.places.iter_mut().flatten();
        let Some(worker) = workers.find(|worker| worker.number == number) else { return Ok(()) };
        worker.is_astray = false;
        clockwork::right(&self.plan.folder, number)
    }

    fn choose(&self, choice: u64, is_right: impl Fn(&Worker) -> bool) -> Option<usize> {
        let right = |worker: &Option<Worker>| {
            worker.as_ref().is_some_and(|worker| !worker.is_killed && is_right(worker))
        };
        let places: Vec<usize> =
            (0..self.places.len()).filter(|place| right(&self.places[*place])).collect();
        let place = usize::try_from(choice % (places.len() as u64).max(1)).unwrap_or(0);
        places.get(place).copied()
    }

    /// Starts a worker in every place that is empty.
    async fn fill(&mut self) -> Result<()> {
        for place in 0..self.places.len() {
            if self.places[place].is_none() {
                self.enlist(place).await?;
            }
        }
        Ok(())
    }

    async fn enlist(&mut self, place: usize) -> Result<()> {
        self.started += 1;
        let (number, plan) = (self.started, &self.plan);
        let link = place % plan.urls.len();
        let clockwork = match (place % 4, &plan.faketime) {
            (1, Some(_)) => Clockwork::Stepping,
            (2, Some(_)) => Clockwork::Rate(self.rates[place]),
            _ => Clockwork::True,
        };
        let environment = match &plan.faketime {
            Some(library) => clockwork.environment(library, &plan.folder, number)?,
            None => Vec::new(),
        };
        let job = Job {
            parent: tether::own_id(),
            worker: number,
            url: plan.urls[link].clone(),
            folder: plan.folder.clone(),
            seed: plan.seed,
            keys: plan.keys,
            tasks: plan.tasks,
            until: plan.until.as_nanos(),
            style: plan.style,
            planted: plan.planted.clone(),
            operation_timeout: plan.operation_timeout,
            // Each part of the network has all of them.
            rate: plan.rates[usize::try_from(number / 3 % 3).unwrap_or(0)],
        };
        let child = tether::start(worker::ROLE, &job, &environment).await?;
        let pid = child.id().unwrap_or(0);
        self.links.insert(number, link);
        self.places[place] = Some(Worker {
            number,
            pid,
            child,
            clockwork,
            resumes: None,
            is_astray: false,
            is_killed: false,
        });
        Ok(())
    }

    /// Takes note of those who have ended.
    fn bury(&mut self) -> Result<()> {
        for place in 0..self.places.len() {
            let Some(worker) = &mut self.places[place] else { continue };
            let Some(status) = worker.child.try_wait()? else { continue };
            let (number, pid) = (worker.number, worker.pid);
            self.places[place] = None;
            faketime::clean(pid);
            if status.signal() == Some(Signal::KILL.as_raw()) {
                self.note(number, What::Killed)?;
            } else if !status.success() {
                let told = fs::read_to_string(job::complaint(&self.plan.folder, number));
                bail!("worker {number} ended with {status}: {}", told.unwrap_or_default());
            }
        }
        Ok(())
    }

    fn resume(&mut self, is_due: impl Fn(Moment) -> bool) -> Result<()> {
        for place in 0..self.places.len() {
            let Some(worker) = &mut self.places[place] else { continue };
            if worker.resumes.is_some_and(&is_due) {
                worker.resumes = None;
                tether::signal(&worker.child, Signal::CONT);
                let number = worker.number;
                self.note(number, What::Resumed)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, worker: u64, what: What) -> Result<()> {
        let at = SystemClock.now().as_nanos();
        Ok(self.log.write(&Record { worker, claim: 0, key: String::new(), at, what })?)
    }
}

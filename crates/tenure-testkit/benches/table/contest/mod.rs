//! Processes that all want one key, again and again.

mod party;

use std::time::Duration;

use anyhow::{Context, Result};
use tenure::clock::{Clock, SystemClock};
use tokio::task::JoinSet;

pub(crate) use party::Lock;
use party::Party;

use crate::role::{Helper, argument, await_start, parse, say};
use crate::sample::{elapsed_since, on_all_cores, pause};

/// How long they go on, if nothing else is said.
const RUN: Duration = Duration::from_secs(4);
/// For this part of a turn, whoever had the key then leaves it alone: another gets it, and this one
/// has been waiting for a while when it is free again.
const APART: u32 = 4;

/// What they want, and in which rhythm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest<'a> {
    pub(crate) lock: Lock,
    /// Where it is: the URL of a store, or the address of a server.
    pub(crate) at: &'a str,
    /// How long one holds.
    pub(crate) turn: Duration,
    /// How long they go on.
    pub(crate) run: Duration,
}

/// One grant, on the boot clock that all processes of the machine share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) process: usize,
    /// A number among those of its process.
    task: u64,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Held {
    /// Whose it is.
    pub(crate) fn contender(&self) -> (usize, u64) {
        (self.process, self.task)
    }
}

impl<'a> Contest<'a> {
    /// For a lock of tenure on the store at this URL.
    pub(crate) fn on(url: &'a str, turn: Duration) -> Self {
        Self { lock: Lock::Tenure, at: url, turn, run: RUN }
    }

    /// Lets processes with so many tasks each have the key; their grants, one after the other.
    pub(crate) fn hold(&self, tasks: &[usize]) -> Result<Vec<Held>> {
        let turn = self.turn.as_micros().to_string();
        let run = self.run.as_millis().to_string();
        let start = |tasks: &usize| {
            let words = [self.lock.name(), self.at, &turn, &run, &tasks.to_string()];
            Helper::start("contend", &words)
        };
        let mut helpers = tasks.iter().map(start).collect::<Result<Vec<_>>>()?;
        helpers.iter_mut().try_for_each(Helper::await_ready)?;
        helpers.iter_mut().try_for_each(Helper::go)?;
        let mut grants = Vec::new();
        for (process, helper) in helpers.iter_mut().enumerate() {
            while let Some(line) = helper.line()? {
                let [task, from, until] = parse(&line)?;
                grants.push(Held { process, task, from, until });
            }
        }
        // Nobody is granted what another still holds, so that this is the order of the grants.
        grants.sort_by_key(|held| held.from);
        Ok(grants)
    }
}

pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let name: String = argument(arguments, 0)?;
    let lock = Lock::named(&name).context("no such lock")?;
    let at: String = argument(arguments, 1)?;
    let turn = Duration::from_micros(argument(arguments, 2)?);
    let run = Duration::from_millis(argument(arguments, 3)?);
    let tasks: usize = argument(arguments, 4)?;
    on_all_cores(async move {
        let parties = lock.parties(&at, tasks).await?;
        await_start()?;
        let mut running: JoinSet<Result<Vec<String>>> = JoinSet::new();
        for (number, party) in parties.into_iter().enumerate() {
            running.spawn(take_turns(party, number, turn, run));
        }
        while let Some(lines) = running.join_next().await {
            lines??.iter().try_for_each(|line| say(line))?;
        }
        Ok(())
    })
}

/// Number, start and end of each grant.
async fn take_turns(
    mut party: Box<dyn Party>,
    number: usize,
    turn: Duration,
    run: Duration,
) -> Result<Vec<String>> {
    let start = SystemClock.now();
    let mut grants = Vec::new();
    while elapsed_since(start) < run {
        party.take().await?;
        let from = SystemClock.now();
        pause(turn).await;
        let until = SystemClock.now();
        party.give().await?;
        pause(turn / APART).await;
        grants.push(format!("{number} {} {}", from.as_nanos(), until.as_nanos()));
    }
    Ok(grants)
}

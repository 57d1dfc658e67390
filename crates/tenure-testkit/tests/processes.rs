//! Real processes on one file: killed under load, stopped while they hold.

#![allow(clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::role::{Process, Role};
use tenure_testkit::wait::sleep;

const KILLS: usize = 200;
const PAUSES: u32 = 200;
const HOLDERS: u32 = 4;
const TTL: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    tenure_testkit::role::run_if_asked();
    let mut arguments = Arguments::from_args();
    // Each of these has a machine's worth of processes of its own.
    arguments.test_threads = Some(1);
    let trials = vec![
        trial("no_acknowledged_grant_is_lost_to_sigkill", killed_under_load),
        trial("no_holder_believes_past_a_takeover_through_sigstop", stopped_while_holding),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial<F>(name: &str, test: fn() -> F) -> Trial
where
    F: Future<Output = Result<()>> + 'static,
{
    Trial::test(name, move || {
        let runtime = tokio::runtime::Runtime::new().map_err(|e| Failed::from(e.to_string()))?;
        runtime.block_on(test()).map_err(|error| Failed::from(format!("{error:?}")))
    })
}

/// What the processes have acknowledged.
#[derive(Default)]
struct Acknowledged {
    fences: BTreeSet<u64>,
}

impl Acknowledged {
    /// Notes a grant; a fence must be new and, within one process, greater than the one before.
    fn grant(&mut self, fence: u64, last: &mut u64) -> Result<()> {
        ensure!(fence > *last, "fence {fence} after {last} in one process");
        ensure!(self.fences.insert(fence), "fence {fence} was granted twice");
        *last = fence;
        Ok(())
    }

    fn highest(&self) -> u64 {
        self.fences.last().copied().unwrap_or(0)
    }
}

async fn killed_under_load() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let locks = Locks::open(&url).await?;
    let start =
        |n: usize| Process::start(&Role::Load { url: url.clone(), prefix: format!("worker-{n}/") });
    let mut workers = (0..4).map(start).collect::<Result<Vec<_>>>()?;
    let mut acknowledged = Acknowledged::default();
    let mut survived = 0;
    for n in 0..KILLS {
        let fresh = start(n + 4)?;
        let mut worker = std::mem::replace(&mut workers[n % 4], fresh);
        worker.line("granted ").await.context("it never got to work")?;
        sleep(Duration::from_millis(5 + (n as u64 * 7) % 40)).await;
        worker.kill()?;
        for (key, fence) in held_at_death(&mut worker, &mut acknowledged).await? {
            let status = locks.status(&key).await?;
            let seen = status.map(|status| status.fence.get());
            ensure!(seen == Some(fence), "kill {n}: {key} with fence {fence} is lost: {seen:?}");
            survived += 1;
        }
        let guard = locks.lock("probe").acquire().await?;
        let highest = acknowledged.highest();
        ensure!(guard.fence().get() > highest, "fence {} after {highest}", guard.fence());
        guard.release().await?;
    }
    println!(
        "{KILLS} kills, {} grants acknowledged, {survived} held at death and all still there",
        acknowledged.fences.len()
    );
    ensure!(survived > KILLS, "hardly any worker died holding: {survived}");
    Ok(())
}

/// Reads what a killed worker said; returns the grants that it had not begun to release.
async fn held_at_death(
    worker: &mut Process,
    acknowledged: &mut Acknowledged,
) -> Result<BTreeMap<String, u64>> {
    let mut held = BTreeMap::new();
    let mut last = 0;
    while let Some(line) = worker.next().await? {
        let mut words = line.split(' ');
        let (verb, key) = (words.next(), words.next().unwrap_or_default().to_owned());
        // The last line may have been cut by the kill.
        let Some(fence) = words.next().and_then(|fence| fence.parse().ok()) else { continue };
        if verb == Some("granted") {
            acknowledged.grant(fence, &mut last)?;
            held.insert(key, fence);
        } else {
            held.remove(&key);
        }
    }
    Ok(held)
}

async fn stopped_while_holding() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let url: Arc<str> = format!("file:{}", folder.path().join("locks.db").display()).into();
    let holders: Vec<_> =
        (0..HOLDERS).map(|n| tokio::spawn(pause_again_and_again(Arc::clone(&url), n))).collect();
    let mut takeovers = 0;
    for holder in holders {
        takeovers += holder.await??;
    }
    println!("{PAUSES} pauses at 0.5 to 3 times the ttl, {takeovers} takeovers, no late belief");
    ensure!(takeovers > PAUSES / 3, "too few pauses outlasted the lease: {takeovers}");
    Ok(())
}

/// What was seen of one key: who believed in which fence until when, and who took it over when.
#[derive(Default)]
struct Seen {
    beliefs: Vec<(u64, u64)>,
    takeovers: Vec<(u64, u64)>,
}

impl Seen {
    /// Nobody may have believed in an older fence at or after a takeover.
    fn check(&self) -> Result<()> {
        for (taken, at) in &self.takeovers {
            for (fence, until) in self.beliefs.iter().filter(|(fence, _)| fence < taken) {
                ensure!(
                    until < at,
                    "fence {fence} was believed in for {} ns after fence {taken} was granted",
                    until - at
                );
            }
        }
        Ok(())
    }
}

/// Stops one holder over and over while trying to take its key; returns how often that worked.
async fn pause_again_and_again(url: Arc<str>, holder: u32) -> Result<u32> {
    let key = format!("holder-{holder}");
    let locks = Locks::open(&url).await?;
    let role = Role::Believe { url: url.to_string(), key: key.clone(), ttl: TTL };
    let mut process = Process::start(&role)?;
    process.line("held ").await?;
    let mut seen = Seen::default();
    for n in 0..PAUSES / HOLDERS {
        sleep(TTL * ((n * 13) % 10) / 15).await;
        process.pause()?;
        let length = TTL.mul_f64(0.5 + 2.5 * f64::from((n * 7 + holder) % 26) / 25.0);
        let resume_at = SystemClock.now() + length;
        let request = locks.lock(&key).ttl(Duration::from_secs(30)).wait(length);
        let taken = request.acquire().await.ok();
        let taken_at = SystemClock.now().as_nanos();
        SystemClock.sleep_until(resume_at).await;
        process.resume()?;
        if let Some(taken) = taken {
            seen.takeovers.push((taken.fence().get(), taken_at));
            // It finds out that its belief has ended, and asks for the key again.
            let fence = taken.fence().get();
            read_until(
                &mut process,
                &mut seen,
                |line| matches!(line, Line::Believed(belief) if belief < fence),
            )
            .await?;
            taken.release().await?;
            let again = |line| matches!(line, Line::Held(held) if held > fence);
            read_until(&mut process, &mut seen, again).await?;
        }
    }
    seen.check()?;
    Ok(u32::try_from(seen.takeovers.len())?)
}

/// What the holder says.
enum Line {
    Held(u64),
    Believed(u64),
}

/// Reads what the holder says, and notes its beliefs, until it says what is waited for.
async fn read_until(
    process: &mut Process,
    seen: &mut Seen,
    wanted: impl Fn(Line) -> bool,
) -> Result<()> {
    loop {
        let text = process.next().await?.context("the holder ended")?;
        let mut words = text.split(' ').skip(1);
        let fence = words.next().context("no fence")?.parse()?;
        let line = match words.next() {
            Some(until) => {
                seen.beliefs.push((fence, until.parse()?));
                Line::Believed(fence)
            }
            None => Line::Held(fence),
        };
        if wanted(line) {
            return Ok(());
        }
    }
}

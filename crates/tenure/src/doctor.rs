//! What a store is worth, here and now, and how to make it worth more.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock, within};
use crate::error::{Chain, Error, ErrorKind, Result};
use crate::finding::{Finding, Severity};
use crate::key::{Key, Namespace};
use crate::key_policy::KeyPolicy;
use crate::locks::Locks;
use crate::store::{Store, StoreInfo, Timing};
use crate::stores;

const NAMESPACE: &str = "tenure-doctor";
const KEY: &str = "trial";
const WAKE_KEY: &str = "trial of waking";
const TTL: Duration = Duration::from_secs(10);
/// Another doctor may be at work.
const PATIENCE: Duration = Duration::from_secs(30);
const WAKES_WITHIN: Duration = Duration::from_secs(2);

/// What [`doctor`] found.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the store says of itself; `None` when it could not be opened.
    pub store: Option<StoreInfo>,
    /// All findings, the gravest first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The gravest finding's severity.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.findings.first().map_or(Severity::Note, |finding| finding.severity)
    }

    fn new(store: Option<StoreInfo>, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Self { store, findings }
    }
}

/// Opens the store that `url` names, which probes it, and tries a lock in a namespace of its own:
/// that it excludes, that its fences grow, that a release wakes.
///
/// It never fails: what goes wrong is a finding. No finding carries a password or an owner. Must be
/// called within a tokio runtime.
pub async fn doctor(url: &str) -> Report {
    match stores::open(url, Arc::new(SystemClock)).await {
        Ok(store) => examine(store).await,
        Err(error) => Report::new(None, vec![refused("open", &error)]),
    }
}

/// [`doctor`] for a store that is already open.
pub async fn examine(store: Arc<dyn Store>) -> Report {
    let info = store.info().clone();
    let mut findings = info.findings.clone();
    if info.timing == Timing::Observer {
        findings.push(Finding::note(
            "takeover",
            "the store ends no lease by itself: a waiter takes over a dead holder's key when it \
             has seen it unchanged for a full ttl",
        ));
    }
    // What was found before the trial ended early still counts.
    if let Err(error) = trial(&store, &mut findings).await {
        findings.push(refused("trial", &error));
    }
    Report::new(Some(info), findings)
}

async fn trial(store: &Arc<dyn Store>, findings: &mut Vec<Finding>) -> Result<()> {
    let locks = Locks::builder().namespace(NAMESPACE).open_on(Arc::clone(store)).await?;
    let first = locks.lock(KEY).ttl(TTL).wait(PATIENCE).acquire().await?;
    findings.push(exclusion(&locks).await?);
    if store.info().capabilities.wakes {
        findings.push(wake_up(&locks, &**store).await?);
    }
    let fence = first.fence();
    first.release().await?;
    let second = locks.lock(KEY).ttl(TTL).wait(PATIENCE).acquire().await?;
    findings.push(if second.fence() > fence {
        Finding::note("fence", format!("it grew from {fence} to {}", second.fence()))
    } else {
        let text = format!("it went from {fence} to {}: it must grow", second.fence());
        Finding::refusal("fence", text)
    });
    findings.push(round_trip(&locks).await?);
    second.release().await
}

async fn exclusion(locks: &Locks) -> Result<Finding> {
    Ok(match locks.lock(KEY).ttl(TTL).try_acquire().await? {
        None => Finding::note("exclusion", "a key that is held was refused to another owner"),
        Some(_) => Finding::refusal("exclusion", "one key was granted to two owners at once"),
    })
}

async fn wake_up(locks: &Locks, store: &dyn Store) -> Result<Finding> {
    let guard = locks.lock(WAKE_KEY).ttl(TTL).wait(PATIENCE).acquire().await?;
    let stored = KeyPolicy::plain().store_key(&Namespace::new(NAMESPACE)?, &Key::new(WAKE_KEY)?);
    let watch = store.watch(&stored).await;
    guard.release().await?;
    let why = match watch {
        Err(error) => format!("nobody can listen for a release ({})", Chain(&error)),
        Ok(mut watch) => match within(&SystemClock, WAKES_WITHIN, watch.changed()).await {
            Ok(()) => return Ok(Finding::note("wake-up", "a release wakes those who wait")),
            Err(_) => format!("a release was not heard of within {WAKES_WITHIN:?}"),
        },
    };
    Ok(Finding::warning("wake-up", format!("{why}: waiters only poll")))
}

async fn round_trip(locks: &Locks) -> Result<Finding> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let before = SystemClock.now();
        locks.status(KEY).await?;
        times.push(SystemClock.now().since(before));
    }
    times.sort_unstable();
    Ok(Finding::note("round trip", format!("a read takes about {:?}", times[times.len() / 2])))
}

fn refused(topic: &'static str, error: &Error) -> Finding {
    let finding = Finding::refusal(topic, Chain(error).to_string());
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Unknown => {
            finding.remedy("see that the store runs and can be reached from here")
        }
        ErrorKind::Denied => finding.remedy("check the credentials and what they are allowed"),
        ErrorKind::Invalid => finding.remedy("correct the URL or the settings"),
        _ => finding,
    }
}

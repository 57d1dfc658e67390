//! The whole conformance suite again, on every store with a server, over a network that loses
//! replies at random.
//!
//! Between each store and its server stands a [`Proxy`] that loses a piece of a reply with a small
//! chance, swallows the rest, and cuts the connection a moment later: the request was carried out,
//! and the client cannot know. That goes for opening, for reads, and for notifications as well.
//!
//! # What is held to
//! A case asserts what a store answers, and a lost answer is none. So the store under test is
//! wrapped in one that asks again ([`insistent`]), in the way that the contract of a store allows:
//! the same owner gets the same grant, a renewal can be repeated, a read changes nothing. A store
//! that keeps the contract then behaves as if nothing had been lost, and every assertion of every
//! case must hold. It breaks on: a reply that is taken for the answer to another question, a
//! connection that is used after it broke, a retry inside the client that grants twice, a wake-up
//! that is lost with its subscription, "held" or "wrong input" where the network was at fault.
//!
//! # What may be repeated
//! - A case that ends with the store's word that it could not be asked, or that the outcome is not
//!   known, is started again in a fresh room. An assertion that fails is final, and so is a key
//!   that stays locked.
//! - The [`timed_cases`] bound how long something takes or take for granted that an operation
//!   is quick, which a lossy network may break in good faith. They may be repeated when time has
//!   run out: each says what it fails with then. Any other assertion is final here too.
//!
//! Both at most [`ATTEMPTS`] times. No case is left out; those in [`LONG`] lose less. A run that
//! has lost nothing has shown nothing: it is repeated with a greater chance of loss, and a case
//! that never loses anything fails.
//!
//! # Without asking again
//! The wrapped store never says that it does not know, so that the engine above it never has to
//! find out. That is what [`bare`] is for.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bare;
mod insistent;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use insistent::Insistent;
use libtest_mimic::{Arguments, Failed, Trial};
use tenure::clock::SystemClock;
use tenure::{ErrorKind, Retry, Store};
use tenure_testkit::conformance::{Case, Maker, Subject, cases, timed_cases};
use tenure_testkit::mutants::{Mutant, StoreBug};
use tenure_testkit::proxy::{Flow, Proxy};
use tenure_testkit::servers::{Kind, fresh_room, kinds};
use tenure_testkit::wait::{InVain, sleep};

/// The chance that a piece of a reply is lost, in a thousand.
const LOSS: u64 = 20;
/// The same for the cases in [`LONG`].
const LOSS_LONG: u64 = 1;
const ATTEMPTS: u64 = 8;
/// How often a case may lose nothing.
const SPARED_MAX: u64 = 10;
/// How often a store is opened before the network is to blame no longer.
const OPENINGS: usize = 10;
/// What all chance of a run comes from; the variable of this name sets another.
const SEED: &str = "TENURE_TESTKIT_SEED";

/// Cases in which one operation may take hundreds of requests, so that one is always lost.
const LONG: &[&str] = &["listing::pages_without_gaps"];

/// What became of one store.
#[derive(Default)]
struct Tally {
    has_no_server: bool,
    passed: usize,
    ran: usize,
    repeated: u64,
    spared: u64,
    lost: u64,
}

type Tallies = Arc<Mutex<BTreeMap<&'static str, Tally>>>;

fn main() -> ExitCode {
    tenure_testkit::role::run_if_asked();
    let mut arguments = Arguments::from_args();
    // Most cases wait for a lease to end: they take time, but hardly a processor.
    arguments.test_threads = arguments.test_threads.or(Some(10));
    let tallies = Tallies::default();
    let mut trials = vec![
        Trial::test("control::the_listed_cases_are_cases", listed_cases_are_cases),
        Trial::test(
            "control::a_grant_that_is_not_repeated_is_missed",
            a_grant_that_is_not_repeated_is_missed,
        ),
        Trial::test("control::only_what_is_about_time_is_repeated", only_time_is_repeated),
    ];
    trials.extend(bare::trials());
    for kind in kinds() {
        trials.extend(cases().into_iter().map(|case| trial(kind, case, &tallies)));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let complete = print_matrix(&tallies);
    let chosen = arguments.filter.is_some() || !arguments.skip.is_empty() || arguments.list;
    if !chosen && !complete {
        println!("the matrix is not full: a pair of store and case did not run");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn trial(kind: Kind, case: Case, tallies: &Tallies) -> Trial {
    let tallies = Arc::clone(tallies);
    Trial::test(format!("{}::{}", kind.name, case.name()), move || {
        if kind.shared().map_err(|error| format!("{error:#}"))?.server().is_none() {
            tallies.lock().unwrap().entry(kind.name).or_default().has_no_server = true;
            return Ok(());
        }
        let (mut attempt, mut spared) = (1, 0);
        let outcome = loop {
            let is_long = LONG.contains(&case.name().as_str());
            let loss = if is_long { LOSS_LONG } else { LOSS } * (1 + spared);
            let network = Network { loss, ..Network::new(kind, seed(&case, attempt + spared)) };
            let outcome = case.run(&network.maker());
            let lost = network.lost();
            tallies.lock().unwrap().entry(kind.name).or_default().lost += lost;
            match outcome {
                Err(error) if attempt < ATTEMPTS && may_be_repeated(&case, &error) => {
                    println!("{} {}: again after: {error:#}", kind.name, case.name());
                    attempt += 1;
                }
                Ok(()) if lost == 0 && spared < SPARED_MAX => spared += 1,
                Ok(()) if lost == 0 => break Err(anyhow!("nothing was ever lost")),
                outcome => break outcome.with_context(|| format!("seed {}", network.seed)),
            }
        };
        let mut tallies = tallies.lock().unwrap();
        let tally = tallies.entry(kind.name).or_default();
        tally.ran += 1;
        tally.passed += usize::from(outcome.is_ok());
        tally.repeated += attempt - 1;
        tally.spared += spared;
        outcome.map_err(|error| Failed::from(format!("{error:?}")))
    })
}

fn may_be_repeated(case: &Case, error: &anyhow::Error) -> bool {
    let kinds: Vec<_> = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<tenure::Error>())
        .map(tenure::Error::kind)
        .collect();
    if kinds.iter().any(|kind| matches!(kind, ErrorKind::Unavailable | ErrorKind::Unknown)) {
        return true;
    }
    case.ran_out_of_time(error)
}

/// One network for one run of one case.
#[derive(Clone)]
struct Network {
    kind: Kind,
    seed: u64,
    loss: u64,
    /// What is broken on purpose in the store behind it.
    bug: Option<StoreBug>,
    proxy: Arc<Mutex<Option<Arc<Proxy>>>>,
}

impl Network {
    fn new(kind: Kind, seed: u64) -> Self {
        Self { kind, seed, loss: LOSS, bug: None, proxy: Arc::default() }
    }

    /// How many replies it has lost.
    fn lost(&self) -> u64 {
        self.proxy.lock().unwrap().as_ref().map_or(0, |proxy| proxy.lost())
    }

    /// Makes one store over this network.
    fn maker(&self) -> Maker {
        let network = self.clone();
        Maker::new(self.kind.name, move || Box::pin(network.clone().subject()))
    }

    async fn subject(self) -> Result<Subject> {
        let kind = self.kind;
        let service = tokio::task::spawn_blocking(move || kind.shared()).await??;
        let server = service.server().context("a store without a server")?;
        let proxy = Arc::new(Proxy::start(server.address(), self.seed).await?);
        *self.proxy.lock().unwrap() = Some(Arc::clone(&proxy));
        let url = service.url(fresh_room(), Some(proxy.address()));
        let connect = {
            let (url, proxy) = (url.clone(), Arc::clone(&proxy));
            move || Box::pin(self.clone().connect(url.clone(), Arc::clone(&proxy))) as _
        };
        Ok(Subject::new(connect, Some(url), (service, proxy)))
    }

    async fn connect(self, url: String, proxy: Arc<Proxy>) -> Result<Arc<dyn Store>> {
        let Some(bug) = self.bug else {
            proxy.replies(Flow::LoseSome(self.loss));
            return Ok(Arc::new(Insistent::new(open(&url).await?)));
        };
        // A control is about what comes after.
        proxy.pass();
        let store = Arc::new(Mutant::new(open(&url).await?, bug));
        proxy.replies(Flow::LoseSome(self.loss));
        Ok(Arc::new(Insistent::new(store)))
    }
}

/// Opens a store, however often the network gets in the way.
async fn open(url: &str) -> Result<Arc<dyn Store>> {
    for _ in 1..OPENINGS {
        match tenure::stores::open(url, Arc::new(SystemClock)).await {
            Err(error) if error.retry() != Retry::Never => sleep(Duration::from_millis(20)).await,
            outcome => return Ok(outcome?),
        }
    }
    Ok(tenure::stores::open(url, Arc::new(SystemClock)).await?)
}

fn base_seed() -> u64 {
    std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

/// FNV-1a over the name, so that each case has chances of its own.
fn seed(case: &Case, attempt: u64) -> u64 {
    let start = 0xCBF2_9CE4_8422_2325 ^ base_seed();
    let name = case.name();
    let hash = name
        .bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    hash.wrapping_add(attempt)
}

fn listed_cases_are_cases() -> Result<(), Failed> {
    let names: Vec<_> = cases().iter().map(Case::name).collect();
    let mut listed = timed_cases().chain(LONG.iter().copied());
    match listed.find(|listed| !names.iter().any(|name| name == listed)) {
        Some(name) => Err(format!("no case is called {name}").into()),
        None => Ok(()),
    }
}

fn only_time_is_repeated() -> Result<(), Failed> {
    let named = |name: &str| cases().into_iter().find(|case| case.name() == name);
    let timed = named("renewal::keep_alive_outlives_the_ttl").ok_or("no such case")?;
    let other = named("fencing::grows_across_release").ok_or("no such case")?;
    let is = |case: &Case, error: anyhow::Error| may_be_repeated(case, &error);
    let lost = || anyhow::anyhow!("lost although it was kept alive");
    let told = [
        is(&timed, lost()),
        is(&timed, InVain::new("an end", Duration::ZERO).into()),
        is(&other, tenure::Error::unknown("no answer").into()),
        !is(&other, lost()),
        !is(&timed, anyhow::anyhow!("two at once")),
        !is(&timed, anyhow::anyhow!("the fence did not grow")),
    ];
    if told == [true; 6] { Ok(()) } else { Err(format!("{told:?}").into()) }
}

/// A store that refuses what it has granted when it is asked again must fail, with a key that stays
/// locked: else nothing was lost that mattered.
fn a_grant_that_is_not_repeated_is_missed() -> Result<(), Failed> {
    let kind = *kinds().first().ok_or("no store with a server")?;
    let case = cases().into_iter().find(|case| case.name() == "fencing::grows_across_release");
    let case = case.ok_or("no such case")?;
    let bug = Some(StoreBug::NotIdempotent);
    let network = Network { loss: 300, bug, ..Network::new(kind, 1) };
    let Err(found) = case.run(&network.maker()) else {
        return Err(format!("{} replies were lost, and nobody noticed", network.lost()).into());
    };
    println!("found out: {found:#}");
    let kind = found.downcast_ref::<tenure::Error>().map(tenure::Error::kind);
    if kind == Some(ErrorKind::TimedOut) { Ok(()) } else { Err("for another reason".into()) }
}

/// Prints what became of each store; whether everything ran.
fn print_matrix(tallies: &Tallies) -> bool {
    let tallies = tallies.lock().unwrap();
    let all = cases().len();
    let mut complete = true;
    let head = ["passed/cases", "repeated", "lost nothing", "replies lost"];
    println!("\n{:20} {:>12} {:>10} {:>14} {:>14}", "", head[0], head[1], head[2], head[3]);
    for kind in kinds() {
        let Some(tally) = tallies.get(kind.name) else {
            complete = false;
            println!("{:20} {:>12}", kind.name, "not run");
            continue;
        };
        if tally.has_no_server {
            println!("{:20} {:>12}", kind.name, "no server");
            continue;
        }
        complete &= tally.ran == all;
        let Tally { repeated, spared, lost, .. } = tally;
        let passed = format!("{}/{all}", tally.passed);
        println!("{:20} {passed:>12} {repeated:>10} {spared:>14} {lost:>14}", kind.name);
    }
    println!();
    complete
}

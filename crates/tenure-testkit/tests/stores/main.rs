//! What every store must do with real processes and a real server, beyond the conformance suite.
//!
//! | file | what it shows |
//! |---|---|
//! | `takeover.rs` | of two processes that contend, one is killed: the other goes on in time |
//! | `restart.rs` | the server is killed and started again under fifty held locks |
//! | `crowd.rs` | a thousand tasks in four processes add up to a thousand |
//! | `line.rs` | a thousand waiters ask the store hardly more often than one |
//! | `honesty.rs` | what a store says of a failure is true |
//! | `silence.rs` | the network falls silent under held locks, and nobody is told |
//! | `doctor.rs` | the doctor refuses no sound store, and tells no password |
//! | `embedded.rs` | the store without a server, which must do all of it as well |

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod crowd;
mod doctor;
mod embedded;
mod honesty;
mod line;
mod restart;
mod silence;
mod takeover;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::servers::{Kind, Service, kinds};

type Running = Pin<Box<dyn Future<Output = Result<Outcome>>>>;

/// One thing to show of every store.
#[derive(Clone, Copy)]
struct Idea {
    name: &'static str,
    load: Load,
    show: fn(Kind) -> Running,
    /// The same with something broken on purpose, and what must be said of it: else it could not
    /// fail.
    control: (fn(Kind) -> Running, &'static str),
}

/// What an idea asks of the machine.
#[derive(Clone, Copy)]
enum Load {
    /// It mostly waits: others that do can run beside it.
    Waits,
    /// It keeps every processor busy: nothing runs beside it.
    Works,
}

impl Load {
    fn carry<T>(self, work: impl FnOnce() -> T) -> T {
        static MACHINE: RwLock<()> = RwLock::new(());
        match self {
            Self::Waits => {
                let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
                work()
            }
            Self::Works => {
                let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
                work()
            }
        }
    }
}

/// Those that wait come first, side by side.
const IDEAS: &[Idea] = &[
    takeover::IDEA,
    restart::IDEA,
    silence::IDEA,
    honesty::IDEA,
    doctor::IDEA,
    crowd::IDEA,
    line::IDEA,
];

/// What was seen, in a few words.
enum Outcome {
    Passed(String),
    /// There is nothing to kill or to cut off.
    DoesNotApply(&'static str),
}

const NO_SERVER: Outcome = Outcome::DoesNotApply("no server");

/// What became of each idea, by store.
type Results = Arc<Mutex<BTreeMap<(&'static str, &'static str), String>>>;

fn main() -> ExitCode {
    tenure_testkit::role::run_if_asked();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(6));
    let results = Results::default();
    let all: Vec<Kind> = std::iter::once(embedded::KIND).chain(kinds()).collect();
    let mut trials = Vec::new();
    for idea in IDEAS {
        let (control, said) = idea.control;
        let name = format!("control::{}_can_fail", idea.name);
        let load = idea.load;
        trials.push(Trial::test(name, move || load.carry(|| refuted(control, said))));
        for kind in &all {
            trials.push(trial(*idea, *kind, &results));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let complete = print_matrix(&all, &results);
    let chosen = arguments.filter.is_some() || !arguments.skip.is_empty() || arguments.list;
    if !chosen && !complete {
        println!("the matrix is not full: a pair of store and idea did not run");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn trial(idea: Idea, kind: Kind, results: &Results) -> Trial {
    let results = Arc::clone(results);
    Trial::test(format!("{}::{}", kind.name, idea.name), move || {
        let (outcome, took) = idea.load.carry(|| {
            let start = SystemClock.now();
            (finished((idea.show)(kind)), SystemClock.now().since(start))
        });
        let told = match &outcome {
            Ok(Outcome::Passed(seen)) => {
                println!("{} {}: {seen}", kind.name, idea.name);
                format!("{:.1} s", took.as_secs_f64())
            }
            Ok(Outcome::DoesNotApply(why)) => (*why).to_owned(),
            Err(_) => "FAILED".to_owned(),
        };
        results.lock().unwrap().insert((kind.name, idea.name), told);
        outcome.map(|_| ()).map_err(|error| Failed::from(format!("{error:?}")))
    })
}

/// A control passes when what is broken was found out, and nothing else.
fn refuted(control: fn(Kind) -> Running, said: &str) -> Result<(), Failed> {
    let Err(found) = finished(control(embedded::KIND)) else {
        return Err("what is broken on purpose passed".into());
    };
    let found = format!("{found:#}");
    println!("found out: {found}");
    if found.contains(said) { Ok(()) } else { Err(format!("{said:?} was not found").into()) }
}

fn finished(work: Running) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// A server of one's own, to be killed and cut off.
async fn own(kind: Kind) -> Result<Arc<dyn Service>> {
    tokio::task::spawn_blocking(move || (kind.start)()).await?
}

/// The server that all share, each in a room of its own.
async fn shared(kind: Kind) -> Result<Arc<dyn Service>> {
    tokio::task::spawn_blocking(move || kind.shared()).await?
}

fn print_matrix(all: &[Kind], results: &Results) -> bool {
    let results = results.lock().unwrap();
    let width = all.iter().map(|kind| kind.name.len()).max().unwrap_or(0).max(10);
    let mut complete = true;
    print!("\n{:width$}", "");
    for idea in IDEAS {
        print!(" {:>10}", idea.name);
    }
    println!();
    for kind in all {
        print!("{:width$}", kind.name);
        for idea in IDEAS {
            let told = results.get(&(kind.name, idea.name));
            complete &= told.is_some();
            print!(" {:>10}", told.map_or("not run", String::as_str));
        }
        println!();
    }
    println!();
    complete
}

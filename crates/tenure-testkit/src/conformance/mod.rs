//! The cases that every store must pass.
//!
//! A case works through the production layers ([`tenure::Locks`]) on a fresh store of its own. What
//! a store cannot do, it says in its [`Capabilities`](tenure::store::Capabilities), and the case
//! then asserts the refusal: both answers are held to.
//!
//! # For authors of other stores
//! Make a test with `harness = false` whose `main` is
//!
//! ```no_run
//! use tenure_testkit::conformance::{Maker, Subject, cases};
//! # fn make_subject() -> Subject { unimplemented!() } // tidy-allow
//!
//! // Cases that kill a process start this very program again.
//! tenure_testkit::role::run_if_asked();
//! let maker = Maker::new("mine", || Box::pin(async { Ok(make_subject()) }));
//! for case in cases() {
//!     case.run(&maker).unwrap_or_else(|error| panic!("{}: {error:?}", case.name()));
//! }
//! ```

mod ambiguity;
mod crash;
mod exclusion;
mod expiry;
mod fencing;
mod input;
mod listing;
mod ownership;
mod renewal;
mod stopwatch;
mod subject;
mod timed;
mod waiting;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result};

pub use subject::{Maker, Subject};
pub use timed::timed_cases;

use crate::wait::bounded;

type CaseFuture = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Longer than any case takes on a store that works.
const CASE_MAX: Duration = Duration::from_secs(60);

/// With an answer as slow as this, a case about time says nothing: leases are as short as 900 ms.
const SLOW: Duration = Duration::from_millis(100);

/// How often a case about time is tried on a store that is slow.
const ATTEMPTS: usize = 5;

/// One thing that a store must do.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    group: &'static str,
    name: &'static str,
    test: fn(Subject) -> CaseFuture,
}

impl Case {
    /// `group::case`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }

    /// The group it belongs to.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// Runs it on a fresh store, in a runtime of its own. A case about time is run again where time
    /// has run out and the store was slow.
    ///
    /// # Errors
    /// What the store did wrong.
    pub fn run(&self, maker: &Maker) -> Result<()> {
        for _ in 1..ATTEMPTS {
            let (outcome, slowest) = self.attempt(maker)?;
            match outcome {
                Err(error) if slowest >= SLOW && self.ran_out_of_time(&error) => {
                    self.say_again(maker, slowest, &error);
                }
                outcome => return outcome,
            }
        }
        self.attempt(maker)?.0
    }

    #[allow(clippy::print_stdout)]
    fn say_again(&self, maker: &Maker, slowest: Duration, error: &anyhow::Error) {
        let (store, case) = (maker.name(), self.name());
        println!("{store} {case}: again, an answer took {slowest:?}: {error:#}");
    }

    /// What became of it, and how long the slowest answer took.
    fn attempt(&self, maker: &Maker) -> Result<(Result<()>, Duration)> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("no runtime")?;
        let outcome = runtime.block_on(async {
            let subject = maker.make().await.context("the store could not be made")?;
            let stopwatch = subject.stopwatch();
            let test = bounded("the case to end", CASE_MAX, (self.test)(subject)).await;
            Ok((test.flatten(), stopwatch.slowest()))
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        outcome
    }
}

/// All cases.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        exclusion::CASES,
        ownership::CASES,
        expiry::CASES,
        renewal::CASES,
        fencing::CASES,
        waiting::CASES,
        ambiguity::CASES,
        listing::CASES,
        input::CASES,
        crash::CASES,
    ]
    .concat()
}

/// The cases of one group, from the names of its functions.
macro_rules! group {
    ($group:literal: $($test:ident),+ $(,)?) => {
        pub(super) const CASES: &[super::Case] = &[$(super::Case {
            group: $group,
            name: stringify!($test),
            test: |subject| Box::pin($test(subject)),
        }),+];
    };
}
use group;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

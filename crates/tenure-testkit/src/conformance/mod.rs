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
mod subject;
mod waiting;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result};

pub use subject::{Maker, Subject};

use crate::wait::bounded;

type CaseFuture = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Longer than any case takes on a store that works.
const CASE_MAX: Duration = Duration::from_secs(60);

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

    /// Runs it on a fresh store, in a runtime of its own.
    ///
    /// # Errors
    /// What the store did wrong.
    pub fn run(&self, maker: &Maker) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("no runtime")?;
        let outcome = runtime.block_on(async {
            let subject = maker.make().await.context("the store could not be made")?;
            bounded("the case to end", CASE_MAX, (self.test)(subject)).await?
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

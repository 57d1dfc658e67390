//! Callers that take and give back locks as fast as they are answered.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use tenure::clock::{Clock, SystemClock};

use super::all;
use crate::sample::{elapsed_since, rate};

/// How long they work at a time.
const ROUND: Duration = Duration::from_millis(500);

/// One who asks, and asks again only when it was answered.
#[async_trait]
pub(super) trait Caller: Send {
    /// Takes a lock that nobody else wants, and gives it back.
    async fn cycle(&mut self) -> Result<()>;
}

/// Callers that work at once.
#[derive(Default)]
pub(super) struct Crowd(Vec<Box<dyn Caller>>);

impl Crowd {
    pub(super) fn push(&mut self, caller: impl Caller + 'static) {
        self.0.push(Box::new(caller));
    }

    /// Lets them work for a while; how many grants a second they get.
    pub(super) async fn grants_per_second(&mut self) -> Result<f64> {
        let start = SystemClock.now();
        let work = self.0.drain(..).map(|mut caller| async move {
            let mut grants = 0;
            while elapsed_since(start) < ROUND {
                caller.cycle().await?;
                grants += 1;
            }
            Ok((caller, grants))
        });
        let work: Vec<_> = work.collect();
        let (callers, grants): (Vec<_>, Vec<u64>) = all(work).await?.into_iter().unzip();
        let took = elapsed_since(start);
        self.0 = callers;
        Ok(rate(grants.iter().sum(), took))
    }
}

//! Crowds of callers that take turns.

use anyhow::{Context, Result};

use super::caller::Crowd;
use crate::sample::{Pairs, is_unsteady, median};

const ROUNDS: usize = 5;

/// Grants a second of each of our crowds and of each of theirs, round by round.
pub(super) struct Rounds<const O: usize, const T: usize>(Vec<([f64; O], [f64; T])>);

impl<const O: usize, const T: usize> Rounds<O, T> {
    pub(super) async fn of(mut ours: [Crowd; O], mut theirs: [Crowd; T]) -> Result<Self> {
        let mut rounds = Vec::new();
        for _ in 0..=ROUNDS {
            let theirs = rates(&mut theirs).await?;
            rounds.push((rates(&mut ours).await?, theirs));
        }
        // The first round fills the caches of all.
        Ok(Self(rounds.split_off(1)))
    }

    pub(super) fn pairs(&self, way: usize, rival: usize) -> Pairs {
        let mut pairs = Pairs::default();
        self.0.iter().for_each(|(ours, theirs)| pairs.push(ours[way], theirs[rival]));
        pairs
    }

    pub(super) fn ours(&self, way: usize) -> Result<Rate> {
        Rate::of(self.0.iter().map(|(ours, _)| ours[way]))
    }

    pub(super) fn theirs(&self, rival: usize) -> Result<Rate> {
        Rate::of(self.0.iter().map(|(_, theirs)| theirs[rival]))
    }
}

/// What one crowd reached in the rounds.
pub(super) struct Rate {
    pub(super) middle: f64,
    pub(super) is_unsure: bool,
}

impl Rate {
    fn of(rates: impl Iterator<Item = f64> + Clone) -> Result<Self> {
        let middle = median(&mut rates.clone().collect::<Vec<_>>());
        let middle = middle.context("nothing was measured")?;
        Ok(Self { middle, is_unsure: is_unsteady(rates) })
    }
}

/// One after the other.
async fn rates<const N: usize>(crowds: &mut [Crowd; N]) -> Result<[f64; N]> {
    let mut rates = [0.0; N];
    for (crowd, rate) in crowds.iter_mut().zip(&mut rates) {
        *rate = crowd.grants_per_second().await?;
    }
    Ok(rates)
}

//! All chance of a run, from one seed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tenure::random::Random;

/// A seeded generator (splitmix64) that the whole run shares.
///
/// One thread runs one seed, so the order of the draws, and with it the run, is a function of the
/// seed alone.
#[derive(Debug)]
pub(crate) struct Dice(Mutex<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring states.
        Self(Mutex::new(mix(seed.wrapping_add(0x5851_F42D_4C95_7F2D))))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(*state)
    }

    /// A number in `0..end`; 0 when there is none.
    pub(crate) fn below(&self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// True in so many of a thousand draws.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A time span from `from` up to `to` milliseconds, in steps of a tenth of one.
    pub(crate) fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_micros(100 * (10 * from + self.below(10 * to.saturating_sub(from) + 1)))
    }

    /// One of `items`, which must not be empty.
    pub(crate) fn pick<T: Copy>(&self, items: &[T]) -> T {
        items[usize::try_from(self.below(items.len() as u64)).unwrap_or(0)]
    }
}

fn mix(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random for Dice {
    fn fill(&self, bytes: &mut [u8]) -> bool {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.next().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let draw = |seed| {
            let dice = Dice::new(seed);
            [dice.next(), dice.below(10), dice.next()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}

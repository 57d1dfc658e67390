//! Randomness: owners and jitter come from here and nowhere else.

use std::fmt::Debug;

/// Where the library takes random bytes from.
///
/// # Contract
/// Bytes cannot be guessed by another party: an [`Owner`](crate::Owner) made of them is a
/// credential. A simulation may break that on purpose to replay a run.
pub trait Random: Debug + Send + Sync + 'static {
    /// Fills `bytes`; false when the operating system has none to give.
    fn fill(&self, bytes: &mut [u8]) -> bool;
}

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[allow(clippy::disallowed_methods)]
    fn fill(&self, bytes: &mut [u8]) -> bool {
        getrandom::fill(bytes).is_ok()
    }
}

/// A number in `0.0..1.0`, for jitter. Without randomness it is 0.5: jitter is a courtesy.
pub(crate) fn fraction(random: &dyn Random) -> f64 {
    let mut bytes = [0; 4];
    if !random.fill(&mut bytes) {
        return 0.5;
    }
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}

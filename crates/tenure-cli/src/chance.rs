//! Random choices, for commands that try things out.

use std::time::Duration;

use tenure::random::{Random, SystemRandom};

use crate::exit::Exit;
use crate::failure::Failure;

/// A number below `sides`; 0 where the system has no randomness to give.
pub(crate) fn below(sides: u64) -> u64 {
    number().unwrap_or(0) % sides.max(1)
}

/// A length of time from `least` to `most`.
pub(crate) fn between(least: Duration, most: Duration) -> Duration {
    let span = u64::try_from(most.saturating_sub(least).as_nanos()).unwrap_or(u64::MAX);
    least + Duration::from_nanos(below(span.saturating_add(1)))
}

/// A name that nobody else has.
///
/// # Errors
/// Where the system has no randomness to give: then it might be another's.
pub(crate) fn name() -> Result<String, Failure> {
    let failure = || Failure::new(Exit::Internal, "the operating system gave no random bytes");
    number().map(|number| format!("{number:016x}")).ok_or_else(failure)
}

fn number() -> Option<u64> {
    let mut bytes = [0; 8];
    SystemRandom.fill(&mut bytes).then(|| u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_within_their_bounds() {
        let (least, most) = (Duration::from_millis(3), Duration::from_millis(5));
        for _ in 0..1000 {
            assert!(below(3) < 3);
            assert!((least..=most).contains(&between(least, most)));
        }
        assert_eq!(between(most, least), most);
        assert_eq!(below(0), 0);
        assert_ne!(name().unwrap(), name().unwrap());
    }
}

//! The secret that proves who holds a lease.

use std::fmt;

use uuid::Uuid;

use crate::error::{Error, Operation, Result};
use crate::random::Random;

const BYTES_MAX: usize = 256;

/// The secret of one acquire: whoever has it can renew and release the lease.
///
/// It is a credential, so `Debug` does not print it and no error, event, list or log of this crate
/// carries it. [`expose`](Self::expose) is the one way to its text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    // A million held leases are a million owners: the common form stays off the heap.
    Uuid(Uuid),
    Text(Box<str>),
}

impl Owner {
    /// A new owner: a version 4 UUID, 122 of whose bits are random, drawn from `random`.
    ///
    /// # Errors
    /// `Unavailable` when there is no randomness to be had.
    pub fn generate(random: &dyn Random) -> Result<Self> {
        let mut bytes = [0; 16];
        if !random.fill(&mut bytes) {
            return Err(Error::unavailable("the operating system gave no random bytes")
                .during(Operation::Acquire));
        }
        Ok(Self(Repr::Uuid(uuid::Builder::from_random_bytes(bytes).into_uuid())))
    }

    /// An owner of the caller's choice, 1 to 256 bytes without control characters.
    ///
    /// Choose it as you would a password: anyone who guesses it can release the lock.
    ///
    /// # Errors
    /// `Invalid` when it is empty, too long or contains control characters.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > BYTES_MAX {
            return Err(Error::invalid(format!(
                "owner must have 1 to {BYTES_MAX} bytes, this one has {}",
                text.len()
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid("owner must not contain control characters"));
        }
        Ok(Self(match Uuid::try_parse(text) {
            Ok(uuid) if is_canonical(uuid, text) => Repr::Uuid(uuid),
            _ => Repr::Text(text.into()),
        }))
    }

    /// The secret's text, for a caller that has to pass it on.
    #[must_use]
    pub fn expose(&self) -> String {
        match &self.0 {
            Repr::Uuid(uuid) => uuid.hyphenated().to_string(),
            Repr::Text(text) => text.to_string(),
        }
    }
}

fn is_canonical(uuid: Uuid, text: &str) -> bool {
    let mut buffer = Uuid::encode_buffer();
    &*uuid.hyphenated().encode_lower(&mut buffer) == text
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn text_round_trips() {
        let made = Owner::generate(&SystemRandom).unwrap();
        assert_eq!(Owner::parse(&made.expose()).unwrap(), made);
        for text in ["job-7", "A9C8B7A6-0000-4000-8000-000000000000", "ünï"] {
            assert_eq!(Owner::parse(text).unwrap().expose(), text);
        }
    }

    #[test]
    fn debug_keeps_the_secret() {
        let owner = Owner::parse("hunter2").unwrap();
        assert!(!format!("{owner:?}").contains("hunter2"));
    }

    #[test]
    fn bad_owners_are_refused_with_the_limit() {
        let long = Owner::parse(&"x".repeat(257)).unwrap_err().to_string();
        assert!(long.contains("256") && long.contains("257"), "{long}");
        assert!(Owner::parse("").is_err());
        assert!(Owner::parse("a\nb").is_err());
    }
}

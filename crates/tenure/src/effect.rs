//! Whether an operation changes anything.

use crate::error::Error;

/// What an operation does to a store, which decides what its silence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: it may be made again.
    Read,
    /// A change, which without an answer may have been made or not.
    Write,
}

impl Effect {
    /// The error for an operation that was sent and not answered.
    pub(crate) fn unanswered(self, text: impl Into<String>) -> Error {
        match self {
            Self::Read => Error::unavailable(text),
            Self::Write => Error::unknown(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Retry;

    #[test]
    fn only_a_change_may_have_been_made() {
        assert_eq!(Effect::Read.unanswered("no answer").retry(), Retry::Safe);
        assert_eq!(Effect::Write.unanswered("no answer").retry(), Retry::Unknown);
    }
}

//! Why `tenure` could not do what it was asked to: an exit code, a sentence, and what to do next.

use std::error::Error as StdError;
use std::fmt;

use tenure::ErrorKind;
use tenure::error::Chain;

use crate::exit::Exit;

/// What went wrong, for a person and for the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    text: String,
    advice: Option<&'static str>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into(), advice: None }
    }

    /// Ends the command with this code and says nothing: what there was to say was said.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// `text` and the causes of `error` behind it.
    pub(crate) fn caused(exit: Exit, text: &str, error: &(dyn StdError + 'static)) -> Self {
        Self::new(exit, format!("{text}: {}", Chain(error)))
    }

    /// An error of the library, with its exit code.
    pub(crate) fn of_error(error: &tenure::Error) -> Self {
        Self::new(Exit::of_error(error), Chain(error).to_string())
    }

    /// An error of the library, with its exit code and what to do about it.
    pub(crate) fn advised(error: &tenure::Error) -> Self {
        let failure = Self::of_error(error);
        match error.kind() {
            ErrorKind::NotFound => failure.advise("it was released, or its ttl is over"),
            ErrorKind::WrongOwner => failure.advise(
                "this owner's lease has ended, or is that of another key: see 'tenure status'",
            ),
            ErrorKind::Unknown => {
                failure.advise("it may have been done all the same: see 'tenure status'")
            }
            // The store itself is well, and says what to do.
            ErrorKind::Damaged => failure,
            _ if failure.exit == Exit::Store => {
                failure.advise("'tenure doctor' says what is wrong with the store")
            }
            _ => failure,
        }
    }

    /// This failure, with what to do about it.
    pub(crate) fn advise(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }

    /// This failure, with `code` in place of `exit`.
    pub(crate) fn instead_of(mut self, exit: Exit, code: u8) -> Self {
        if self.exit == exit {
            self.exit = Exit::Command(code);
        }
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether there is nothing to say.
    pub(crate) fn is_silent(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

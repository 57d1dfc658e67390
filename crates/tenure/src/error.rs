//! The one error: what happened, in words a caller can act on without reading the text.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::fence::Fence;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do something about. Kinds differ where the handling differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another owner holds the key and the caller did not want to wait.
    Held,
    /// Another owner held the key until the wait was over, or others of this process came first.
    TimedOut,
    /// The lease is no longer this owner's, or can no longer be known to be. Stop the work.
    Lost,
    /// No lease stands on this key.
    NotFound,
    /// A lease stands on this key, and it is another owner's.
    WrongOwner,
    /// The store could not be reached or could not work. Nothing was changed.
    Unavailable,
    /// The store did not answer: the change may have been made or not.
    Unknown,
    /// The input or the configuration is wrong. The text names the field, the limit and the size.
    Invalid,
    /// The store or the policy in use cannot do this.
    Unsupported,
    /// The store refused the credentials or the operating system the access.
    Denied,
    /// Another process uses this namespace with another key scheme or secret, or another clock.
    Mismatch,
    /// The stored data cannot be trusted. It needs an operator; nothing is granted meanwhile.
    Damaged,
}

/// Whether the same call may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// It will fail again until something else changes.
    Never,
    /// Nothing was changed; the same call may succeed later.
    Safe,
    /// The change may have been made: read before writing again.
    Unknown,
}

/// Which call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Opening a store or building [`Locks`](crate::Locks).
    Open,
    /// Asking for a lease.
    Acquire,
    /// Prolonging a lease.
    Renew,
    /// Giving a lease back.
    Release,
    /// Taking a lease from its owner.
    ForceRelease,
    /// Looking at one key.
    Inspect,
    /// Listing keys.
    List,
    /// Asking to be woken.
    Watch,
    /// Running work under a lease.
    Run,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::ForceRelease => "force-release",
            Self::Inspect => "inspect",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Run => "run",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far work went on after its lease could have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// Time from the end of the belief to the moment this was found.
    pub by: Duration,
    /// The fence of whoever holds the key now, when someone does and the store could be asked.
    pub live_fence: Option<Fence>,
}

/// What went wrong, where, and whether to try again.
///
/// `Display` is one sentence with the operation and the key; causes are in
/// [`source`](StdError::source) and are not repeated in it. No error carries an owner, a password
/// or, under keyed hashing, a raw key.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    operation: Option<Operation>,
    key: Option<String>,
    message: String,
    overrun: Option<Overrun>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            operation: None,
            key: None,
            message: message.into(),
            overrun: None,
            source: None,
        }))
    }

    /// An [`ErrorKind::Invalid`] error.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// An [`ErrorKind::Unavailable`] error: the store did nothing.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// An [`ErrorKind::Unknown`] error: the store may have made the change.
    #[must_use]
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unknown, message)
    }

    /// This error, said to have come up in `operation`.
    #[must_use]
    pub fn during(mut self, operation: Operation) -> Self {
        self.0.operation = Some(operation);
        self
    }

    /// This error, said to be about `key`: its label, never a raw key under keyed hashing.
    #[must_use]
    pub fn about(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// This error with its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// This error of a call of which it does not matter whether it was carried out.
    #[cfg(feature = "etcd")]
    pub(crate) fn of_no_matter(mut self) -> Self {
        if self.0.kind == ErrorKind::Unknown {
            self.0.kind = ErrorKind::Unavailable;
        }
        self
    }

    pub(crate) fn overran(mut self, overrun: Overrun) -> Self {
        self.0.overrun = Some(overrun);
        self
    }

    /// What happened.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The call it happened in, where that is known.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        self.0.operation
    }

    /// The label of the key it is about, if it is about one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// How long the work overran its lease, on a [`Lost`](ErrorKind::Lost) that was found late.
    #[must_use]
    pub fn overrun(&self) -> Option<Overrun> {
        self.0.overrun
    }

    /// Whether the call may be made again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self.0.kind {
            ErrorKind::Held | ErrorKind::TimedOut | ErrorKind::Unavailable => Retry::Safe,
            ErrorKind::Unknown => Retry::Unknown,
            ErrorKind::Lost
            | ErrorKind::NotFound
            | ErrorKind::WrongOwner
            | ErrorKind::Invalid
            | ErrorKind::Unsupported
            | ErrorKind::Denied
            | ErrorKind::Mismatch
            | ErrorKind::Damaged => Retry::Never,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.operation, &self.0.key) {
            (Some(operation), Some(key)) => write!(f, "{operation} {key:?}: ")?,
            (Some(operation), None) => write!(f, "{operation}: ")?,
            (None, Some(key)) => write!(f, "{key:?}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.0.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

/// An error with all its causes on one line, for a log.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn StdError + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_operation_and_key_and_leaves_the_cause_out() {
        let error = Error::unavailable("the store is away")
            .during(Operation::Acquire)
            .about("order:42")
            .caused_by(std::io::Error::other("connection refused"));
        assert_eq!(error.to_string(), "acquire \"order:42\": the store is away");
        let chain = Chain(&error).to_string();
        assert_eq!(chain, "acquire \"order:42\": the store is away: connection refused");
    }

    #[test]
    fn an_unknown_outcome_is_its_own_retry_class() {
        assert_eq!(Error::unknown("no answer").retry(), Retry::Unknown);
        assert_eq!(Error::unavailable("down").retry(), Retry::Safe);
        assert_eq!(Error::invalid("bad").retry(), Retry::Never);
    }
}

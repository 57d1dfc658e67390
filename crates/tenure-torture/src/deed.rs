//! What workers do besides asking for locks and giving them back.

use serde::{Deserialize, Serialize};

/// One line of a worker's second history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deed {
    /// The number of the worker.
    #[serde(rename = "w")]
    pub(crate) worker: u64,
    /// Which of its claims this is about; 0 where it is about none.
    #[serde(rename = "c")]
    pub(crate) claim: u64,
    /// The key; empty where it is not known.
    #[serde(rename = "k")]
    pub(crate) key: String,
    /// When, in nanoseconds on the boot clock.
    #[serde(rename = "t")]
    pub(crate) at: u64,
    /// What.
    #[serde(flatten)]
    pub(crate) what: Done,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(crate) enum Done {
    /// The store is about to be asked who holds the key.
    LookAsked,
    /// It said.
    Looked {
        /// The fence of whoever holds it; none if nobody does.
        fence: Option<u64>,
    },
    /// It did not say.
    LookFailed {
        /// The kind of the error.
        kind: String,
    },
    /// The key is about to be taken from whoever holds it.
    ForceAsked,
    /// The store said what came of it.
    Forced {
        /// The fence of whoever held it; none if nobody did.
        fence: Option<u64>,
    },
    /// The store did not say.
    ForceFailed {
        /// The kind of the error.
        kind: String,
    },
    /// A lease was prolonged by its guard.
    Renewed {
        /// Its fence.
        fence: u64,
        /// How long that took, in nanoseconds.
        took: u64,
    },
    /// The store did not prolong a lease, nor say that it is lost.
    RenewFailed {
        /// The kind of the error.
        kind: String,
        /// How long that took, in nanoseconds.
        took: u64,
    },
    /// A guard that is kept alive was found not to hold any more, and had not been given back.
    Gone,
    /// Whoever held the lock asked for it again, with the same owner, and believed in its own guard
    /// until it was answered.
    Again {
        /// The fence that it was given; none if it was refused.
        fence: Option<u64>,
    },
    /// One of the questions of a claim was not answered, and may have been granted the key.
    Unheard,
    /// A claim is about to be told that the key is held, and none of its questions was answered so:
    /// this process knew that from another.
    Unasked,
    /// The same, but this process did not know either: nobody had said so.
    Unsaid,
}

//! What travels between a client and the store.

use tenure::claim::{Attempt, Claim, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed};
use tenure::watch::Watch;
use tenure::{Holder, Key, Lease, Status};

/// How many keys the clients fight for.
pub(crate) const KEYS: usize = 2;

/// A question to the store.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Acquire(Claim),
    Renew(Renewal),
    Release(Grant),
    Force(Key),
    Inspect(Key),
    List(ListQuery),
    Watch(Key),
    Agree(Pledge),
}

/// The store's answer.
#[derive(Debug)]
pub(crate) enum Reply {
    Attempt(Attempt),
    Renewed(Renewed),
    Released(Released),
    Evicted(Option<Status>),
    Lease(Option<Lease>),
    Page(Page),
    Watch(Watch),
    Fingerprint(String),
}

/// A question on its way.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    /// Which client's, by its seat.
    pub(crate) seat: usize,
    /// Its number, in the order of sending.
    pub(crate) message: u64,
    /// When it was sent, in true time.
    pub(crate) sent: u64,
    /// It was applied once before.
    pub(crate) twice: bool,
    pub(crate) request: Request,
}

impl Request {
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Acquire(claim) => Some(&claim.key),
            Self::Renew(renewal) => Some(&renewal.grant.key),
            Self::Release(grant) => Some(&grant.key),
            Self::Force(key) | Self::Inspect(key) | Self::Watch(key) => Some(key),
            Self::List(_) | Self::Agree(_) => None,
        }
    }

    /// Whether an answer that does not come leaves a doubt.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, Self::Acquire(_) | Self::Renew(_) | Self::Release(_) | Self::Force(_))
    }

    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire",
            Self::Renew(_) => "renew",
            Self::Release(_) => "release",
            Self::Force(_) => "force",
            Self::Inspect(_) => "inspect",
            Self::List(_) => "list",
            Self::Watch(_) => "watch",
            Self::Agree(_) => "agree",
        }
    }
}

/// The number of a key, from its last digit: stored keys have a namespace before them.
pub(crate) fn key_number(key: &Key) -> usize {
    let digit = key.as_str().bytes().next_back().unwrap_or(b'0').wrapping_sub(b'0');
    usize::from(digit).min(KEYS - 1)
}

pub(crate) fn key_name(number: usize) -> String {
    format!("k{number}")
}

/// The number of the acquire that a holder's label carries in its note.
pub(crate) fn attempt_number(holder: &Holder) -> Option<u64> {
    holder.as_str().rsplit(' ').next()?.parse().ok()
}

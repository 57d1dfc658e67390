//! Dapr's table of errors that have to do with locks.
//!
//! The first part is Dapr's own, as its runtime has it. The second is for alpha2, which Dapr has
//! proposed without settling its errors: they are settled here.

use std::fmt;

/// Who speaks, in a `google.rpc.ErrorInfo` of Dapr's API.
pub const DAPR_DOMAIN: &str = "dapr.io";

/// What went wrong, as Dapr's API tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DaprCode {
    /// The request is wrong.
    MalformedRequest,
    /// The body is too large, or ended too early.
    BodyRead,
    /// There is no lock store at all.
    StoreNotConfigured,
    /// There is no lock store of that name.
    StoreNotFound,
    /// alpha1: the store did not take the lock, and not because another holds it.
    TryLock,
    /// The store did not give the lock back.
    Unlock,
    /// The caller may not do this.
    PermissionDenied,
    /// A store cannot be used.
    NotReady,
    /// The same, where only the way out is asked for.
    OutboundNotReady,
    /// Whoever asks for the health wants another application.
    AppIdNotMatch,
    /// alpha2: another holds the lock, and the caller did not want to wait.
    Held,
    /// alpha2: another held the lock until the longest wait was over.
    TimedOut,
    /// alpha2: the lock is held with another lock id, or by nobody.
    NotFound,
    /// alpha2: a lock that a stream held is lost.
    Lost,
    /// alpha2: the caller has as many locks, streams or waiters as it may have.
    LimitReached,
    /// alpha2: the store cannot be reached, or the server goes down. Nothing was changed.
    Unavailable,
    /// alpha2: the store failed otherwise.
    Lock,
}

/// What a [`DaprCode`] becomes: one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaprFault {
    /// `errorCode` in JSON.
    pub name: &'static str,
    /// The HTTP status.
    pub http: u16,
    /// The number of the gRPC status.
    pub grpc: i32,
}

const fn row(name: &'static str, http: u16, grpc: i32) -> DaprFault {
    DaprFault { name, http, grpc }
}

impl DaprCode {
    /// Every code.
    pub const ALL: [Self; 17] = [
        Self::MalformedRequest,
        Self::BodyRead,
        Self::StoreNotConfigured,
        Self::StoreNotFound,
        Self::TryLock,
        Self::Unlock,
        Self::PermissionDenied,
        Self::NotReady,
        Self::OutboundNotReady,
        Self::AppIdNotMatch,
        Self::Held,
        Self::TimedOut,
        Self::NotFound,
        Self::Lost,
        Self::LimitReached,
        Self::Unavailable,
        Self::Lock,
    ];

    /// Its row of the table.
    #[must_use]
    pub const fn fault(self) -> DaprFault {
        match self {
            //                            errorCode                    HTTP gRPC
            Self::MalformedRequest => row("ERR_MALFORMED_REQUEST", 400, 3),
            Self::BodyRead => row("ERR_BODY_READ", 400, 3),
            Self::StoreNotConfigured => row("ERR_LOCK_STORE_NOT_CONFIGURED", 500, 9),
            Self::StoreNotFound => row("ERR_LOCK_STORE_NOT_FOUND", 400, 3),
            Self::TryLock => row("ERR_TRY_LOCK", 500, 13),
            Self::Unlock => row("ERR_UNLOCK", 500, 13),
            Self::PermissionDenied => row("ERR_PERMISSION_DENIED", 403, 7),
            Self::NotReady => row("ERR_HEALTH_NOT_READY", 500, 13),
            Self::OutboundNotReady => row("ERR_OUTBOUND_HEALTH_NOT_READY", 500, 13),
            Self::AppIdNotMatch => row("ERR_HEALTH_APPID_NOT_MATCH", 500, 13),
            Self::Held => row("ERR_LOCK_HELD", 423, 10),
            Self::TimedOut => row("ERR_LOCK_TIMED_OUT", 504, 4),
            Self::NotFound => row("ERR_LOCK_NOT_FOUND", 404, 5),
            Self::Lost => row("ERR_LOCK_LOST", 410, 10),
            Self::LimitReached => row("ERR_LOCK_LIMIT_REACHED", 429, 8),
            Self::Unavailable => row("ERR_LOCK_STORE_UNAVAILABLE", 503, 14),
            Self::Lock => row("ERR_LOCK", 500, 13),
        }
    }

    /// `errorCode` in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.fault().name
    }
}

impl fmt::Display for DaprCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own() {
        for code in DaprCode::ALL {
            let same = DaprCode::ALL.into_iter().filter(|other| other.name() == code.name());
            assert_eq!(same.count(), 1, "{code}");
        }
    }

    #[test]
    fn the_table_of_the_document_is_this_one() {
        let document = include_str!("../../../docs/dapr.md");
        for code in DaprCode::ALL {
            let DaprFault { name, http, .. } = code.fault();
            assert!(document.contains(&format!("\n| `{name}` | {http} | ")), "{name}");
        }
        assert_eq!(document.matches("\n| `ERR_").count(), DaprCode::ALL.len());
    }
}

//! The one table of errors: what a failure is called, and what it becomes on every surface.

use std::fmt;

/// Who speaks, in a `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "tenure";

/// What went wrong, as every surface tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Another holds the lock, and the caller did not want to wait.
    Held,
    /// Another held the lock until the wait was over.
    TimedOut,
    /// The lock is no longer the caller's. Stop the work.
    Lost,
    /// Nobody holds the lock.
    NotFound,
    /// Another holds the lock: the lock id is not its.
    WrongOwner,
    /// The store could not be reached or could not work. Nothing was changed.
    Unavailable,
    /// The store did not answer: the change may have been made or not.
    Unknown,
    /// The request is wrong. The text names the field, the limit and the size.
    Invalid,
    /// The request is larger than the server reads.
    TooLarge,
    /// The store cannot do this.
    Unsupported,
    /// The caller did not say who it is, or not truly.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// The caller has as much as it may have: locks, streams, waiters, connections.
    LimitReached,
    /// No such store, no such path.
    NoSuchPlace,
    /// The path exists, but not with this method.
    NoSuchMethod,
    /// The store refused the server's credentials.
    StoreDenied,
    /// The store is in use with another key scheme or secret.
    Mismatch,
    /// The stored data cannot be trusted. It needs an operator.
    Damaged,
    /// The server is going down.
    ShuttingDown,
    /// A fault of the server itself.
    Internal,
}

/// What a [`Code`] becomes: one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code in words, in JSON and in a `google.rpc.ErrorInfo`.
    pub name: &'static str,
    /// The HTTP status.
    pub http: u16,
    /// The number of the gRPC status.
    pub grpc: i32,
    /// The exit code of the command `tenure`.
    pub exit: u8,
    /// Whether the same call may be made again: `never`, `safe`, or `unknown` when it may have
    /// been carried out.
    pub retry: &'static str,
}

const fn row(name: &'static str, http: u16, grpc: i32, exit: u8, retry: &'static str) -> Fault {
    Fault { name, http, grpc, exit, retry }
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 20] = [
        Self::Held,
        Self::TimedOut,
        Self::Lost,
        Self::NotFound,
        Self::WrongOwner,
        Self::Unavailable,
        Self::Unknown,
        Self::Invalid,
        Self::TooLarge,
        Self::Unsupported,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::LimitReached,
        Self::NoSuchPlace,
        Self::NoSuchMethod,
        Self::StoreDenied,
        Self::Mismatch,
        Self::Damaged,
        Self::ShuttingDown,
        Self::Internal,
    ];

    /// Its row of the table.
    #[must_use]
    pub const fn fault(self) -> Fault {
        match self {
            //                         name            HTTP gRPC exit retry
            Self::Held => row("held", 409, 10, 75, "safe"),
            Self::TimedOut => row("timed_out", 504, 4, 75, "safe"),
            Self::Lost => row("lost", 410, 10, 76, "never"),
            Self::NotFound => row("not_found", 404, 5, 1, "never"),
            Self::WrongOwner => row("wrong_owner", 412, 9, 1, "never"),
            Self::Unavailable => row("unavailable", 503, 14, 69, "safe"),
            Self::Unknown => row("unknown", 500, 2, 69, "unknown"),
            Self::Invalid => row("invalid", 400, 3, 64, "never"),
            Self::TooLarge => row("too_large", 413, 11, 64, "never"),
            Self::Unsupported => row("unsupported", 501, 12, 69, "never"),
            Self::Unauthenticated => row("unauthenticated", 401, 16, 77, "never"),
            Self::Forbidden => row("forbidden", 403, 7, 77, "never"),
            Self::LimitReached => row("limit_reached", 429, 8, 75, "safe"),
            Self::NoSuchPlace => row("no_such_place", 404, 5, 64, "never"),
            Self::NoSuchMethod => row("no_such_method", 405, 12, 64, "never"),
            Self::StoreDenied => row("store_denied", 502, 13, 69, "never"),
            Self::Mismatch => row("mismatch", 500, 9, 69, "never"),
            Self::Damaged => row("damaged", 500, 15, 69, "never"),
            Self::ShuttingDown => row("shutting_down", 503, 14, 69, "safe"),
            Self::Internal => row("internal", 500, 13, 70, "unknown"),
        }
    }

    /// The code in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.fault().name
    }

    /// The code of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own() {
        for code in Code::ALL {
            assert_eq!(Code::by_name(code.name()), Some(code));
        }
    }

    /// The names of the statuses of gRPC, by number.
    const GRPC: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];

    #[test]
    fn the_table_of_the_document_is_this_one() {
        let document = include_str!("../../../docs/server.md");
        let (_, table) = document.split_once("| code | HTTP | gRPC | |").unwrap();
        let rows: Vec<_> = table.lines().skip(2).take_while(|line| !line.is_empty()).collect();
        assert_eq!(rows.len(), Code::ALL.len());
        for (code, row) in Code::ALL.into_iter().zip(rows) {
            let Fault { name, http, grpc, .. } = code.fault();
            let grpc = GRPC[usize::try_from(grpc).unwrap()];
            // Whoever wanted no wait at all is told 423.
            let http = if code == Code::Held { "409, 423".to_owned() } else { http.to_string() };
            let begins = format!("| `{name}` | {http} | {grpc} | ");
            assert!(row.starts_with(&begins), "{row} does not begin with {begins}");
        }
    }

    #[test]
    fn only_what_failed_before_any_change_is_safe_to_repeat() {
        let safe: Vec<_> = Code::ALL.into_iter().filter(|c| c.fault().retry == "safe").collect();
        let expected =
            [Code::Held, Code::TimedOut, Code::Unavailable, Code::LimitReached, Code::ShuttingDown];
        assert_eq!(safe, expected);
    }
}

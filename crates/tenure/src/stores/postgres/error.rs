//! What PostgreSQL's errors mean for a caller, case by case.

use std::error::Error as StdError;
use std::fmt;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::{DbError, Error as Native, Severity, SqlState};

use crate::effect::Effect;
use crate::error::{Error, ErrorKind};
use crate::stores::cause::cause;

/// What the server said, without the details: those may quote a row, and so an owner.
#[derive(Debug)]
struct Said {
    severity: String,
    code: String,
    message: String,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.message)
    }
}

impl StdError for Said {}

/// There is no connection to be had: nothing was sent.
pub(super) fn no_connection(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => connecting(error), // tidy-allow: the name is deadpool's
        PoolError::Timeout(TimeoutType::Create) => away().caused_by(error),
        PoolError::Timeout(_) => none_free().caused_by(error),
        PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            Error::unavailable("the store is closed").caused_by(error)
        }
    }
}

/// An error while connecting.
pub(super) fn connecting(error: Native) -> Error {
    if error.as_db_error().is_some() {
        return harmless(error);
    }
    // With TLS 1.3 the server judges a certificate when the handshake is over for the client.
    if let Some(rustls::Error::AlertReceived(_)) = cause(&error) {
        let text = "the server refused the TLS handshake: does it want another client certificate \
                    (sslcert and sslkey)?";
        return Error::new(ErrorKind::Denied, text).caused_by(error);
    }
    // The library does not show the kind of an error, only its words.
    match error.to_string().as_str() {
        "error performing TLS handshake" => Error::new(
            ErrorKind::Denied,
            "no secure connection came about: check that the server has TLS and that its \
             certificate is for this host and from an issuer that sslrootcert (or the system) \
             trusts; sslmode says what is checked",
        ),
        "authentication error" => Error::new(
            ErrorKind::Denied,
            "the server and this client could not agree on user and password",
        ),
        "invalid configuration" => Error::new(
            ErrorKind::Denied,
            "the server asks for something that is not given: a password (in the URL or in \
             PGPASSWORD), or the right number of hosts and ports",
        ),
        _ if is_read_only(&error) => Error::unavailable(READ_ONLY),
        _ => away(),
    }
    .caused_by(error)
}

pub(super) const READ_ONLY: &str = "this server is read-only: a standby, or \
    default_transaction_read_only is on for this user; name the primary, or all hosts with commas \
    between them";

fn is_read_only(error: &Native) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.to_string().contains("does not allow writes"))
}

/// Whether the first of two attempts to connect came farther than the second: it met a server.
pub(super) fn says_more(one: &Native, other: &Native) -> bool {
    let met =
        |error: &Native| error.to_string() != "error connecting to server" || is_read_only(error);
    met(one) && !met(other)
}

pub(super) fn away() -> Error {
    Error::unavailable(
        "PostgreSQL cannot be reached: check that it runs, and that host and port are right",
    )
}

/// No connection came free in time: nothing was sent.
pub(super) fn none_free() -> Error {
    Error::unavailable(
        "no connection to PostgreSQL was free in time: check that it answers, and that the option \
         connections is not too low",
    )
}

/// The server took a statement and did not answer.
pub(super) fn silent(effect: Effect) -> Error {
    effect.unanswered("PostgreSQL did not answer in time")
}

/// An error after which nothing was changed: of a read, or before a write was executed.
pub(super) fn harmless(error: Native) -> Error {
    match error.as_db_error() {
        Some(said) => explain(said),
        None => Error::unavailable("the connection to PostgreSQL broke").caused_by(error),
    }
}

/// An error of a statement that writes. One that the server ended with an error was undone; when
/// the connection broke, or the server is about to break it, the commit may have happened.
pub(super) fn writing(error: Native) -> Error {
    match error.as_db_error() {
        Some(said) if !ends_session(said) => explain(said),
        Some(said) => Error::unknown(UNANSWERED).caused_by(quote(said)),
        None => Error::unknown(UNANSWERED).caused_by(error),
    }
}

const UNANSWERED: &str = "the connection to PostgreSQL broke before it answered: the change may \
                          have been made or not";

/// Whether the same statement may be sent again at once: it lost a race and was undone.
pub(super) fn lost_race(error: &Native) -> bool {
    error.code().is_some_and(|code| {
        [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
    })
}

/// Whether a prepared statement was not there where the statement arrived: a pooler is in between.
pub(super) fn not_prepared_here(error: &Native) -> bool {
    error.code().is_some_and(|code| {
        [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code)
    })
}

/// Whether this connection is of no more use, though it may still be open.
pub(super) fn taints_connection(error: &Native) -> bool {
    error.as_db_error().is_none_or(|said| {
        ends_session(said) || *said.code() == SqlState::READ_ONLY_SQL_TRANSACTION
    })
}

fn ends_session(said: &DbError) -> bool {
    // Poolers leave the parsed one out.
    matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        || matches!(said.severity(), "FATAL" | "PANIC")
}

fn quote(said: &DbError) -> Said {
    Said {
        severity: said.severity().to_owned(),
        code: said.code().code().to_owned(),
        message: said.message().to_owned(),
    }
}

fn explain(said: &DbError) -> Error {
    let (kind, text) = meaning(said.code().code());
    Error::new(kind, text).caused_by(quote(said))
}

fn meaning(code: &str) -> (ErrorKind, &'static str) {
    match code {
        "28P01" | "28000" => (
            ErrorKind::Denied,
            "PostgreSQL refused the user or the password: check both, and the server's pg_hba.conf",
        ),
        "3D000" => (
            ErrorKind::Invalid,
            "the server has no such database: make it with CREATE DATABASE, or name another in the \
             URL",
        ),
        "42501" => (
            ErrorKind::Denied,
            "this user lacks a right on the tables: run what PostgresOptions::grant_sql says",
        ),
        "53300" => (
            ErrorKind::Unavailable,
            "the server has no connection left: raise its max_connections, or lower the option \
             connections",
        ),
        "57P03" => (ErrorKind::Unavailable, "the server is starting up or shutting down"),
        "57P01" | "57P02" | "57P04" | "57P05" => {
            (ErrorKind::Unavailable, "the server ended the connection")
        }
        "25006" => (ErrorKind::Unavailable, READ_ONLY),
        "40001" | "40P01" => (ErrorKind::Unavailable, "the statement lost every race it was in"),
        "53100" => (ErrorKind::Unavailable, "the server's disk is full"),
        "53200" | "53400" | "53000" => (ErrorKind::Unavailable, "the server is out of memory"),
        "57014" => (
            ErrorKind::Unavailable,
            "the statement was cancelled: by someone, or by statement_timeout",
        ),
        "55P03" => (ErrorKind::Unavailable, "someone else keeps the table or the row locked"),
        "42P01" | "42703" | "42883" | "42804" | "3F000" | "0A000" => (
            ErrorKind::Damaged,
            "the tables are gone or were changed while in use: restore them; made anew, their \
             fences start from the beginning, so reset what protected resources remember of them",
        ),
        "22P02" => {
            (ErrorKind::Damaged, "the table beside the leases has a number in it that is none")
        }
        "XX001" | "XX002" => {
            (ErrorKind::Damaged, "PostgreSQL says that its data is corrupt: it needs an operator")
        }
        "22021" | "22P05" => {
            (ErrorKind::Invalid, "the database cannot hold this text: its encoding must be UTF8")
        }
        code if code.starts_with("08") => {
            (ErrorKind::Unavailable, "a pooler or the network broke the connection")
        }
        _ => (ErrorKind::Unavailable, "PostgreSQL refused the statement"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_kind() {
        for (code, kind) in [
            ("28P01", ErrorKind::Denied),
            ("28000", ErrorKind::Denied),
            ("3D000", ErrorKind::Invalid),
            ("42501", ErrorKind::Denied),
            ("53300", ErrorKind::Unavailable),
            ("57P03", ErrorKind::Unavailable),
            ("25006", ErrorKind::Unavailable),
            ("40001", ErrorKind::Unavailable),
            ("53100", ErrorKind::Unavailable),
            ("42P01", ErrorKind::Damaged),
            ("22P05", ErrorKind::Invalid),
            ("22P02", ErrorKind::Damaged),
            ("99999", ErrorKind::Unavailable),
        ] {
            assert_eq!(meaning(code).0, kind, "{code}");
        }
    }
}

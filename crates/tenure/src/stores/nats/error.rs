//! What NATS says, in this library's words.

use async_nats::jetstream::{self, ErrorCode};
use async_nats::{ConnectError, ConnectErrorKind};

use crate::effect::Effect;
use crate::error::{Error, ErrorKind};
use crate::stores::cause::cause;

/// Why a request has no reply.
#[derive(Debug)]
pub(super) enum Silence {
    /// There is no connection: nothing was sent.
    Down,
    /// Nobody listens there: nothing was done.
    NoResponders,
    /// The user may not: nothing was done.
    Forbidden(String),
    /// The client refused to send it.
    Unsendable(String),
    /// It was sent, and then the connection broke or the time was up.
    NoAnswer(&'static str),
}

/// The error for a request without a reply.
pub(super) fn silent(silence: Silence, effect: Effect) -> Error {
    match silence {
        Silence::Down => Error::unavailable("the connection to NATS is down"),
        Silence::NoResponders => Error::unavailable(
            "nothing in NATS listens there: the bucket is gone or JetStream is away",
        ),
        Silence::Forbidden(what) => Error::new(
            ErrorKind::Denied,
            format!("NATS forbids it, give the user the permission: {what}"),
        ),
        Silence::Unsendable(why) => Error::invalid(why),
        Silence::NoAnswer(why) => effect.unanswered(why),
    }
}

/// Whether a refused write found another sequence than it expected. Replicated streams answer with
/// the second code while another write of the same subject is under way.
pub(super) fn is_conflict(error: &jetstream::Error) -> bool {
    matches!(
        error.error_code(),
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE | ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT
    )
}

/// The error for a write or an API call that the server refused. It has done nothing then, but for
/// a failing disk, of which no one can tell.
pub(super) fn refused(error: &jetstream::Error) -> Error {
    match error.error_code() {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            Error::invalid(format!("the lease is too large for the bucket: {error}"))
        }
        ErrorCode::MESSAGE_TTL_DISABLED | ErrorCode::MESSAGE_TTL_INVALID => Error::new(
            ErrorKind::Mismatch,
            format!("the bucket was changed after it was opened: {error}"),
        ),
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            no_jetstream()
        }
        ErrorCode::STREAM_STORE_FAILED if !error.to_string().contains("exceeded") => {
            Error::unknown(format!("the bucket could not be written: {error}"))
        }
        _ => Error::unavailable(format!("NATS refused: {error}")),
    }
}

pub(super) fn no_jetstream() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "JetStream does not answer: start nats-server with -js, enable it for this account, or \
         name its domain with the option domain",
    )
}

/// The error for a connection that was not made.
pub(super) fn connecting(error: ConnectError) -> Error {
    let (kind, text) = match error.kind() {
        ConnectErrorKind::AuthorizationViolation => (
            ErrorKind::Denied,
            "NATS refused the credentials: check user and password, token, nkey or credentials",
        ),
        ConnectErrorKind::Authentication => {
            (ErrorKind::Denied, "the nkey or the credentials file holds no usable key")
        }
        ConnectErrorKind::Dns => (ErrorKind::Unavailable, "the name of the server is not known"),
        ConnectErrorKind::ServerParse => (ErrorKind::Invalid, "the server's address is none"),
        ConnectErrorKind::Tls => {
            (ErrorKind::Invalid, "TLS cannot be set up: check the options ca, cert and key")
        }
        ConnectErrorKind::TimedOut => {
            (ErrorKind::Unavailable, "the server does not answer, or is no NATS server")
        }
        ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects => match cause(&error) {
            Some(error) => tls(error),
            None => (ErrorKind::Unavailable, "the server cannot be reached, or is no NATS server"),
        },
    };
    Error::new(kind, text).caused_by(error)
}

/// What went wrong with TLS.
fn tls(error: &rustls::Error) -> (ErrorKind, &'static str) {
    match error {
        rustls::Error::InvalidCertificate(_) => (
            ErrorKind::Denied,
            "the server's certificate is not trusted: name its authority with ca, and connect by \
             the name that stands in it",
        ),
        rustls::Error::AlertReceived(_) => (
            ErrorKind::Denied,
            "the server refused the TLS handshake: does it want a client certificate (cert and \
             key)?",
        ),
        _ => (ErrorKind::Invalid, "TLS fails: does the server speak it?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Retry;

    fn said(code: u64, description: &str) -> jetstream::Error {
        let text = format!(r#"{{"code":400,"err_code":{code},"description":"{description}"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn both_codes_of_a_lost_race_are_a_conflict() {
        assert!(is_conflict(&said(10071, "wrong last sequence: 5")));
        assert!(is_conflict(&said(10164, "wrong last sequence")));
        assert!(!is_conflict(&said(10077, "maximum bytes exceeded")));
    }

    #[test]
    fn a_full_bucket_changed_nothing_and_a_failing_disk_may_have() {
        for full in [said(10077, "maximum bytes exceeded"), said(10047, "insufficient storage")] {
            assert_eq!(refused(&full).kind(), ErrorKind::Unavailable);
        }
        let failing = refused(&said(10077, "write /data/1.blk: input/output error"));
        assert_eq!(failing.kind(), ErrorKind::Unknown);
    }

    #[test]
    fn what_was_sent_and_not_answered_is_unknown_only_for_a_write() {
        let silence = || Silence::NoAnswer("no answer");
        assert_eq!(silent(silence(), Effect::Write).retry(), Retry::Unknown);
        assert_eq!(silent(silence(), Effect::Read).retry(), Retry::Safe);
        for effect in [Effect::Read, Effect::Write] {
            assert_eq!(silent(Silence::Down, effect).retry(), Retry::Safe);
            assert_eq!(silent(Silence::NoResponders, effect).retry(), Retry::Safe);
            let forbidden = Silence::Forbidden("to publish".into());
            assert_eq!(silent(forbidden, effect).kind(), ErrorKind::Denied);
        }
    }
}

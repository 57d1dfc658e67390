//! What the errors of Redis and of the way to it mean for a caller, case by case.

use std::io;

use ::redis::{ErrorKind as NativeKind, RedisError, ServerErrorKind};

use crate::effect::Effect;
use crate::error::{Error, ErrorKind};
use crate::stores::cause::cause;

/// Why a command has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// It was never sent.
    Unreachable(Error),
    /// It was sent, and then the connection broke or stayed silent.
    Silent(Option<RedisError>),
    /// The server answered that it does not do it. No script writes before it can be refused.
    Refused(RedisError),
}

impl Fault {
    pub(super) fn new(error: RedisError) -> Self {
        match error.kind() {
            NativeKind::Server(_) | NativeKind::Extension => Self::Refused(error),
            _ => Self::Silent(Some(error)),
        }
    }

    /// Whether the server answered with this kind of error.
    pub(super) fn is(&self, kind: ServerErrorKind) -> bool {
        matches!(self, Self::Refused(error) if error.kind() == NativeKind::Server(kind))
    }

    /// Whether the server was a primary once, and is no longer.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Self::Refused(error) if code(error) == "READONLY")
    }

    pub(super) fn explain(self, effect: Effect) -> Error {
        match self {
            Self::Unreachable(error) => error,
            Self::Refused(error) => refused(error),
            Self::Silent(cause) => {
                let error = effect.unanswered("Redis did not answer");
                match cause {
                    Some(cause) => error.caused_by(cause),
                    None => error,
                }
            }
        }
    }
}

/// What the codes of the server's answers mean: nothing was changed.
const CODES: &[(&str, ErrorKind, &str)] = &[
    (
        "NOAUTH",
        ErrorKind::Denied,
        "Redis wants a password: give it in the URL, as redis://user:password@host, or in \
         REDISCLI_AUTH",
    ),
    ("WRONGPASS", ErrorKind::Denied, "Redis refuses this user and password"),
    ("NOPERM", ErrorKind::Denied, NO_PERMISSION),
    ("READONLY", ErrorKind::Unavailable, READ_ONLY),
    ("LOADING", ErrorKind::Unavailable, LOADING),
    ("OOM", ErrorKind::Unavailable, "Redis is out of memory: raise maxmemory or remove data"),
    (
        "MISCONF",
        ErrorKind::Unavailable,
        "Redis refuses writes because it could not save its data to disk: see its log",
    ),
    (
        "NOREPLICAS",
        ErrorKind::Unavailable,
        "Redis refuses writes because too few replicas are connected",
    ),
    ("BUSY", ErrorKind::Unavailable, "Redis is busy with another client's script"),
    ("MOVED", ErrorKind::Unavailable, MOVING),
    ("ASK", ErrorKind::Unavailable, MOVING),
    ("TRYAGAIN", ErrorKind::Unavailable, MOVING),
    ("CLUSTERDOWN", ErrorKind::Unavailable, MOVING),
    ("MASTERDOWN", ErrorKind::Unavailable, MOVING),
    (
        "WRONGTYPE",
        ErrorKind::Damaged,
        "the key, or what the store keeps beside it, is of another Redis type than a lock: some \
         other use of the same key. Remove or rename that; nothing is granted meanwhile",
    ),
    (
        "DAMAGED",
        ErrorKind::Damaged,
        "a counter tenure:fence:… was changed by other means, and needs a number greater than \
         every fence that was given",
    ),
];

/// The same for answers that have no code but a text.
const TEXTS: &[(&str, ErrorKind, &str)] = &[
    ("no permissions", ErrorKind::Denied, NO_PERMISSION),
    ("user executing the script", ErrorKind::Denied, NO_PERMISSION),
    (
        "max number of clients",
        ErrorKind::Unavailable,
        "Redis has as many clients as maxclients allows",
    ),
    (
        "DB index is out of range",
        ErrorKind::Invalid,
        "Redis has no database of that number: see its setting databases",
    ),
];

const NO_PERMISSION: &str = "the ACL of the Redis user lacks a permission that the store needs: \
                             see its documentation for what to set";
const MOVING: &str =
    "the Redis Cluster is not in a state to serve this key: it is moving or failing over";
pub(super) const READ_ONLY: &str = "this Redis is a read-only replica: name the primary";
pub(super) const LOADING: &str = "Redis is still loading its data: try again when it is done";

/// An error that the server answered with: nothing was changed.
fn refused(error: RedisError) -> Error {
    let detail = error.detail().unwrap_or_default();
    if detail.contains("unknown command") {
        return unknown_command(detail);
    }
    let by_code = CODES.iter().find(|(code, ..)| *code == self::code(&error));
    let known = by_code.or_else(|| TEXTS.iter().find(|(text, ..)| detail.contains(text)));
    let (kind, text) = match known {
        Some((_, kind, text)) => (*kind, *text),
        None => (ErrorKind::Unavailable, "Redis refused the command"),
    };
    Error::new(kind, text).caused_by(error)
}

/// The code of an error. Before version 7, one that comes up within a script stands in the text of
/// another.
fn code(error: &RedisError) -> &str {
    const WITHIN_SCRIPTS: [&str; 6] =
        ["READONLY", "OOM", "MISCONF", "NOREPLICAS", "NOPERM", "WRONGTYPE"];
    let detail = error.detail().unwrap_or_default();
    match error.code().unwrap_or_default() {
        "ERR" => WITHIN_SCRIPTS.into_iter().find(|code| detail.contains(code)).unwrap_or("ERR"),
        code => code,
    }
}

/// Without the cause: the server repeats the arguments in it, and the owner may be one of them.
fn unknown_command(detail: &str) -> Error {
    let command = detail.split(',').next().unwrap_or_default();
    let text = format!("what listens there lacks what the store needs: {command}");
    Error::new(ErrorKind::Unsupported, text)
}

/// An error of connecting: nothing was sent.
pub(super) fn unreachable(error: RedisError) -> Error {
    if let Some(tls) = cause::<rustls::Error>(&error) {
        let (kind, text) = tls_trouble(tls);
        return Error::new(kind, text).caused_by(error);
    }
    match error.kind() {
        NativeKind::AuthenticationFailed => {
            let text = "Redis refuses this user and password";
            Error::new(ErrorKind::Denied, text).caused_by(error)
        }
        NativeKind::Server(_) | NativeKind::Extension => refused(error),
        NativeKind::RESP3NotSupported => too_old("an older one"),
        NativeKind::Parse => {
            let text = "what listens there does not speak the protocol of Redis: is it the right \
                        port?";
            Error::unavailable(text).caused_by(error)
        }
        NativeKind::InvalidClientConfig => {
            let text = "Redis cannot be connected to with these settings";
            Error::invalid(text).caused_by(error)
        }
        _ => {
            let text = match cause::<io::Error>(&error).map(io::Error::kind) {
                Some(io::ErrorKind::ConnectionRefused) => {
                    "nothing listens at the address of Redis: is it running, and is it the right \
                     host and port?"
                }
                Some(
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::BrokenPipe,
                ) => {
                    "the connection was closed before Redis said a word: is it the right port, \
                     and does it want TLS (rediss://)?"
                }
                _ => "Redis cannot be reached",
            };
            Error::unavailable(text).caused_by(error)
        }
    }
}

/// The server is older than the oldest that will do.
pub(super) fn too_old(found: &str) -> Error {
    let text = format!("Redis 6.0 or newer is needed, or Valkey; this is {found}");
    Error::new(ErrorKind::Unsupported, text)
}

fn tls_trouble(error: &rustls::Error) -> (ErrorKind, &'static str) {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, UnknownIssuer,
    };
    match error {
        rustls::Error::InvalidCertificate(UnknownIssuer) => (
            ErrorKind::Denied,
            "TLS: the certificate of Redis is signed by an authority that is not trusted here: \
             give that authority's certificate with the option ca",
        ),
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => (
            ErrorKind::Denied,
            "TLS: the certificate of Redis is for another host than the URL names",
        ),
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            (ErrorKind::Denied, "TLS: the certificate of Redis has expired")
        }
        rustls::Error::InvalidCertificate(_) => {
            (ErrorKind::Denied, "TLS: the certificate of Redis is not valid")
        }
        rustls::Error::InvalidMessage(_) => (
            ErrorKind::Unavailable,
            "what listens there does not speak TLS: use redis:// instead of rediss://, or the TLS \
             port",
        ),
        rustls::Error::AlertReceived(_) => (
            ErrorKind::Denied,
            "TLS: Redis refused the handshake: does it want a client certificate (options cert \
             and key)?",
        ),
        _ => (ErrorKind::Denied, "TLS: the handshake with Redis failed"),
    }
}

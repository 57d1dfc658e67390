//! etcd's errors, case by case: what they mean, and what may be tried next.

use std::error::Error as StdError;

use tonic::{Code, ConnectError, Status};

use crate::effect::Effect;
use crate::error::{Error, ErrorKind};
use crate::stores::cause::cause;

/// What can be done about a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The same request may go to another member: nothing was changed.
    OtherMember,
    /// Log in (again) and repeat: the request was rejected before it was carried out.
    Login,
    /// Go on without: etcd keeps no users.
    NoLogin,
    /// The etcd lease that the request names is gone, and nothing was changed.
    OtherLease,
    /// Nothing here.
    None,
}

/// A request that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) remedy: Remedy,
    pub(super) blame: Blame,
    pub(super) error: Error,
}

/// Whether the member, or the way to it, is the likely cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// It answered: another would answer the same.
    Nobody,
    /// It cannot be reached, or it cannot reach the others.
    Away,
    /// It was sent the request and gave no usable answer.
    Mute,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl Failure {
    fn refused(remedy: Remedy, kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { remedy, blame: Blame::Nobody, error: Error::new(kind, text) }
    }

    /// Nothing was sent.
    fn away(text: impl Into<String>) -> Self {
        let error = Error::unavailable(text);
        Self { remedy: Remedy::OtherMember, blame: Blame::Away, error }
    }

    /// Nothing was sent. Another member may have what this one lacks, its certificate too.
    fn unconnected(error: &ConnectError) -> Self {
        let refused =
            |text| Self { error: Error::new(ErrorKind::Denied, text), ..Self::away(String::new()) };
        match cause(error) {
            Some(rustls::Error::InvalidCertificate(_)) => refused(UNTRUSTED),
            Some(rustls::Error::AlertReceived(_)) => refused(NO_CERTIFICATE),
            _ => Self::away(format!("etcd cannot be connected to: {}", innermost(error))),
        }
    }

    /// Sent, and no usable answer.
    fn doubtful(effect: Effect, text: String) -> Self {
        let remedy = match effect {
            Effect::Read => Remedy::OtherMember,
            Effect::Write => Remedy::None,
        };
        Self { remedy, blame: Blame::Mute, error: effect.unanswered(text) }
    }

    pub(super) fn silence(effect: Effect, limit: std::time::Duration) -> Self {
        Self::doubtful(effect, format!("etcd did not answer within {limit:?}"))
    }

    pub(super) fn of(status: Status, effect: Effect) -> Self {
        let failure = Self::classify(&status, effect);
        let error = failure.error.caused_by(status);
        Self { error, ..failure }
    }

    fn classify(status: &Status, effect: Effect) -> Self {
        if let Some(connect) = cause::<ConnectError>(status) {
            return Self::unconnected(connect);
        }
        let said = status.message();
        let is = |text: &str| said.contains(text);
        if is("etcdserver: no leader") {
            return Self::away("etcd has no leader: too few of its members reach each other");
        }
        if is("rpc not supported for learner") {
            return Self::away("this member of etcd is a learner, which serves no locks");
        }
        match status.code() {
            Code::Unauthenticated => Self::refused(Remedy::Login, ErrorKind::Denied, STALE),
            Code::InvalidArgument if is("auth store is old") => {
                Self::refused(Remedy::Login, ErrorKind::Denied, STALE)
            }
            Code::InvalidArgument if is("user name is empty") => {
                Self::refused(Remedy::Login, ErrorKind::Denied, NO_USER)
            }
            Code::InvalidArgument if is("authentication failed") => {
                let text = "etcd refused the login: wrong user or password";
                Self::refused(Remedy::None, ErrorKind::Denied, text)
            }
            Code::FailedPrecondition if is("authentication is not enabled") => {
                let text = "etcd's authentication is not enabled";
                Self::refused(Remedy::NoLogin, ErrorKind::Invalid, text)
            }
            Code::PermissionDenied => Self::refused(Remedy::None, ErrorKind::Denied, NO_ROLE),
            Code::NotFound if is("lease not found") => {
                let text = "the etcd lease has ended";
                Self::refused(Remedy::OtherLease, ErrorKind::Unavailable, text)
            }
            // A member that runs out of space while it carries out a change makes the change, and
            // answers the same as when it refuses one beforehand.
            Code::ResourceExhausted if is("database space exceeded") => {
                let error = effect.unanswered(NO_SPACE);
                Self { remedy: Remedy::None, blame: Blame::Nobody, error }
            }
            Code::ResourceExhausted if is("etcdserver: too many requests") => {
                let text = "etcd takes no more requests: it is overloaded";
                Self::refused(Remedy::None, ErrorKind::Unavailable, text)
            }
            Code::DataLoss if is("corrupt") => {
                let text = "etcd found its own data corrupt: see its alarms (etcdctl alarm list)";
                Self::refused(Remedy::None, ErrorKind::Damaged, text)
            }
            Code::Unimplemented => {
                let text = "what answers there does not speak etcd's v3 API";
                Self::refused(Remedy::None, ErrorKind::Unsupported, text)
            }
            Code::InvalidArgument if is("etcdserver: ") => {
                Self::refused(Remedy::None, ErrorKind::Invalid, "etcd refused the request as wrong")
            }
            _ => Self::doubtful(effect, "the answer of etcd did not come".into()),
        }
    }
}

const UNTRUSTED: &str = "the certificate of etcd is not trusted: name its authority with the \
     option ca, and connect by a name that stands in it, or give that as server_name";
const NO_CERTIFICATE: &str = "etcd refused the TLS handshake: does it want a client certificate \
     (options cert and key)?";
const STALE: &str = "etcd no longer takes the login token";
const NO_USER: &str = "etcd wants a login: put user:password@ into the URL, or set ETCDCTL_USER";
pub(super) const NO_ROLE: &str = "etcd's user lacks the role: it needs readwrite on the prefix \
     (etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX/)";
pub(super) const NO_SPACE: &str = "etcd's database is full (alarm NOSPACE): compact, defragment \
     and disarm it (etcdctl compact, etcdctl defrag, etcdctl alarm disarm)";

fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: Code, text: &str, effect: Effect) -> (Remedy, ErrorKind) {
        let failure = Failure::of(Status::new(code, text), effect);
        (failure.remedy, failure.error.kind())
    }

    #[test]
    fn only_a_write_that_may_have_been_made_is_unknown() {
        for (code, text) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unknown, "transport error"),
            (Code::ResourceExhausted, "h2 protocol error"),
            (Code::Internal, "stream reset"),
            (Code::Cancelled, ""),
            (Code::DeadlineExceeded, ""),
        ] {
            assert_eq!(of(code, text, Effect::Write), (Remedy::None, ErrorKind::Unknown), "{text}");
            let read = (Remedy::OtherMember, ErrorKind::Unavailable);
            assert_eq!(of(code, text, Effect::Read), read, "{text}");
        }
        let full = |effect| of(Code::ResourceExhausted, "mvcc: database space exceeded", effect);
        assert_eq!(full(Effect::Write), (Remedy::None, ErrorKind::Unknown));
        assert_eq!(full(Effect::Read), (Remedy::None, ErrorKind::Unavailable));
        for (code, text, remedy, kind) in [
            (
                Code::Unavailable,
                "etcdserver: no leader",
                Remedy::OtherMember,
                ErrorKind::Unavailable,
            ),
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                Remedy::OtherLease,
                ErrorKind::Unavailable,
            ),
            (
                Code::Unauthenticated,
                "etcdserver: invalid auth token",
                Remedy::Login,
                ErrorKind::Denied,
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                Remedy::None,
                ErrorKind::Denied,
            ),
        ] {
            assert_eq!(of(code, text, Effect::Write), (remedy, kind), "{text}");
        }
    }
}

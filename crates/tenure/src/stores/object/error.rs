//! What the errors of an object store mean.

use super::wire::{Fault, What};
use crate::error::{Error, ErrorKind, Result};
use crate::stores::cause::cause;
use crate::stores::register::Swap;

/// What a refused write was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Absent,
    Same,
}

/// S3's word for a request that took too long on its way, which it answers with 400.
const STALLED: &str = "RequestTimeout";

/// Why a read failed, or `None`: there is no such object.
pub(super) fn read(error: &object_store::Error) -> Option<Error> {
    let Some(fault) = Fault::of(error) else {
        return Some(Error::unavailable("the object store's answer broke off or makes no sense"));
    };
    match &fault.what {
        What::Answer { status: 404, code } if !is_container_missing(code) => None,
        _ => Some(nothing_changed(fault)),
    }
}

/// How a conditional write ended that did not succeed.
pub(super) fn write(error: &object_store::Error, condition: Condition) -> Result<Swap> {
    let Some(fault) = Fault::of(error) else {
        // Before it was sent, or after it was answered without what we need to go on.
        return Err(Error::unknown("the object store's answer to a write makes no sense"));
    };
    if !fault.is_write {
        return Err(nothing_changed(fault));
    }
    let unknown = |fault: Fault| {
        Err(Error::unknown("the object store did not say whether it wrote").caused_by(fault))
    };
    match &fault.what {
        What::Answer { status: 304 | 412, .. } => Ok(Swap::Conflict),
        // Another write of the object was under way (S3), or it is there already (Azure).
        What::Answer { status: 409, code } if code != "ContainerBeingDeleted" => Ok(Swap::Conflict),
        What::Answer { status: 404, code }
            if condition == Condition::Same && !is_container_missing(code) =>
        {
            Ok(Swap::Conflict)
        }
        What::Answer { status: 503, code } if code != "SlowDown" => unknown(fault),
        What::Answer { status: 400, code } if code == STALLED => unknown(fault),
        What::Answer { status: 408 | 500 | 502 | 504.., .. } | What::NoAnswer => unknown(fault),
        What::Answer { .. } | What::NotSent | What::NoCredentials => Err(nothing_changed(fault)),
    }
}

/// A fault after which it is certain that nothing was written.
fn nothing_changed(fault: Fault) -> Error {
    let (kind, text) = match &fault.what {
        What::NotSent => no_connection(&fault),
        What::NoAnswer => (ErrorKind::Unavailable, "the object store did not answer"),
        What::NoCredentials => (
            ErrorKind::Denied,
            "no credentials: set the environment variables of the cloud, or give them as options",
        ),
        What::Answer { status, code } => refused(*status, code),
    };
    let text = match &fault.what {
        What::Answer { .. } => format!("{text} ({fault})"),
        _ => text.to_owned(),
    };
    Error::new(kind, text).caused_by(fault)
}

fn no_connection(fault: &Fault) -> (ErrorKind, &'static str) {
    match cause::<rustls::Error>(fault) {
        None => (
            ErrorKind::Unavailable,
            "no connection to the object store: is the endpoint right and reachable?",
        ),
        Some(rustls::Error::InvalidMessage(_)) => (
            ErrorKind::Unavailable,
            "the endpoint does not speak TLS: begin it with http:// and set allow_http=true",
        ),
        Some(rustls::Error::InvalidCertificate(_)) => (
            ErrorKind::Denied,
            "the certificate of the object store is not trusted: give its CA as option ca",
        ),
        Some(_) => (ErrorKind::Denied, "the object store refused the TLS handshake"),
    }
}

fn refused(status: u16, code: &str) -> (ErrorKind, &'static str) {
    match (status, code) {
        (_, code) if is_container_missing(code) => (
            ErrorKind::Invalid,
            "the bucket or container does not exist: create it, or correct the URL",
        ),
        (301 | 302 | 307 | 308, _) | (400, "AuthorizationHeaderMalformed") => (
            ErrorKind::Invalid,
            "the bucket is elsewhere: set the option region, or endpoint, to where it is",
        ),
        (400, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") => {
            (ErrorKind::Denied, "the session token is not valid any more: get a new one")
        }
        (_, "InvalidAccessKeyId") => {
            (ErrorKind::Denied, "the access key is not known to the object store")
        }
        (_, "SignatureDoesNotMatch" | "AuthenticationFailed") => {
            (ErrorKind::Denied, "the secret key does not belong to the access key or account")
        }
        (403, "RequestTimeTooSkewed") => {
            (ErrorKind::Denied, "this machine's time of day is too far off for signed requests")
        }
        (401, _) => (ErrorKind::Denied, "the object store wants credentials, or other ones"),
        (403, _) => (
            ErrorKind::Denied,
            "the credentials lack a permission: they need those to get, put and list objects",
        ),
        (405 | 501, _) => {
            (ErrorKind::Unsupported, "the object store does not know conditional writes")
        }
        (429, _) | (503, "SlowDown") => {
            (ErrorKind::Unavailable, "the object store wants fewer requests")
        }
        (400, STALLED) | (408 | 409 | 500.., _) => {
            (ErrorKind::Unavailable, "the object store cannot work now")
        }
        _ => (ErrorKind::Invalid, "the object store refused the request"),
    }
}

fn is_container_missing(code: &str) -> bool {
    matches!(code, "NoSuchBucket" | "ContainerNotFound")
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::client::{HttpError, HttpErrorKind};

    fn wrapped(is_write: bool, what: What) -> object_store::Error {
        let fault = Fault::new(is_write, what);
        let source = Box::new(HttpError::new(HttpErrorKind::Unknown, fault));
        object_store::Error::Generic { store: "S3", source }
    }

    fn answer(status: u16, code: &str) -> What {
        What::Answer { status, code: code.into() }
    }

    fn written(what: What, condition: Condition) -> Result<Swap, ErrorKind> {
        write(&wrapped(true, what), condition).map_err(|error| error.kind())
    }

    #[test]
    fn only_a_certain_refusal_of_a_write_changed_nothing() {
        use Condition::{Absent, Same};
        use ErrorKind::{Denied, Invalid, Unavailable, Unknown, Unsupported};
        for (what, condition, expected) in [
            (answer(412, "PreconditionFailed"), Same, Ok(Swap::Conflict)),
            (answer(412, ""), Absent, Ok(Swap::Conflict)),
            (answer(409, "ConditionalRequestConflict"), Absent, Ok(Swap::Conflict)),
            (answer(409, "ConditionalRequestConflict"), Same, Ok(Swap::Conflict)),
            (answer(409, "BlobAlreadyExists"), Absent, Ok(Swap::Conflict)),
            (answer(404, "NoSuchKey"), Same, Ok(Swap::Conflict)),
            (answer(404, "NoSuchKey"), Absent, Err(Invalid)),
            (answer(404, "NoSuchBucket"), Same, Err(Invalid)),
            (answer(403, "AccessDenied"), Same, Err(Denied)),
            (answer(400, "AuthorizationHeaderMalformed"), Same, Err(Invalid)),
            (answer(429, ""), Same, Err(Unavailable)),
            (answer(501, "NotImplemented"), Same, Err(Unsupported)),
            (answer(503, "SlowDown"), Same, Err(Unavailable)),
            (answer(503, ""), Same, Err(Unknown)),
            (answer(500, "InternalError"), Same, Err(Unknown)),
            (answer(502, ""), Same, Err(Unknown)),
            (answer(504, ""), Same, Err(Unknown)),
            (answer(408, "RequestTimeout"), Same, Err(Unknown)),
            (answer(400, "RequestTimeout"), Same, Err(Unknown)),
            (answer(400, "MalformedXML"), Same, Err(Invalid)),
            (What::NoAnswer, Same, Err(Unknown)),
            (What::NotSent, Same, Err(Unavailable)),
        ] {
            let text = format!("{what:?} {condition:?}");
            assert_eq!(written(what, condition), expected, "{text}");
        }
        let credentials = wrapped(false, What::NoAnswer);
        let error = write(&credentials, Same).unwrap_err();
        assert_eq!(error.kind(), Unavailable, "no write was sent yet");
        let other = object_store::Error::NotImplemented {
            operation: String::new(),
            implementer: String::new(),
        };
        assert_eq!(write(&other, Same).unwrap_err().kind(), Unknown);
    }

    #[test]
    fn a_read_that_fails_never_means_free() {
        assert!(read(&wrapped(false, answer(404, "NoSuchKey"))).is_none());
        assert!(read(&wrapped(false, answer(404, ""))).is_none());
        for (what, kind) in [
            (answer(404, "NoSuchBucket"), ErrorKind::Invalid),
            (answer(404, "ContainerNotFound"), ErrorKind::Invalid),
            (answer(403, ""), ErrorKind::Denied),
            (answer(500, ""), ErrorKind::Unavailable),
            (answer(412, ""), ErrorKind::Invalid),
            (answer(400, "RequestTimeout"), ErrorKind::Unavailable),
            (What::NoAnswer, ErrorKind::Unavailable),
            (What::NotSent, ErrorKind::Unavailable),
            (What::NoCredentials, ErrorKind::Denied),
        ] {
            let text = format!("{what:?}");
            assert_eq!(read(&wrapped(false, what)).unwrap().kind(), kind, "{text}");
        }
        let source = "broken".to_owned().into();
        let other = object_store::Error::Generic { store: "S3", source };
        assert_eq!(read(&other).unwrap().kind(), ErrorKind::Unavailable);
    }
}

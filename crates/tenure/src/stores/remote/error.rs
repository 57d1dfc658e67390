//! What the server and the way to it say, case by case.

use std::error::Error as StdError;
use std::time::Duration;

use tenure_api::Code;
use tonic::{ConnectError, Status};
use tonic_types::StatusExt;

use crate::effect::Effect;
use crate::error::{Error, ErrorKind};

const NO_ANSWER: &str = "the answer of the server did not come";
pub(super) const MALFORMED: &str = "the server's answer is not one that this version understands";

/// A request that failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// Nothing was changed, and the connection is the likely cause: another may do.
    pub(super) again: bool,
    pub(super) error: Error,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl Failure {
    pub(super) fn of(status: Status, effect: Effect) -> Self {
        if let Some(connect) = connect_error(&status) {
            let text = format!("the server cannot be connected to: {}", innermost(connect));
            return Self { again: true, error: Error::unavailable(text).caused_by(status) };
        }
        if let Some(code) = code_of(&status) {
            return Self { again: false, error: said(code, status.message()) };
        }
        let refused = |kind, text: &str| Self { again: false, error: Error::new(kind, text) };
        let failure = match status.code() {
            tonic::Code::Unimplemented => refused(
                ErrorKind::Unsupported,
                "what answers there is no tenure server, or an older one",
            ),
            tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => {
                refused(ErrorKind::Denied, "something before the server refused the request")
            }
            _ => Self::doubtful(effect, NO_ANSWER.to_owned()),
        };
        Self { error: failure.error.caused_by(status), ..failure }
    }

    pub(super) fn silence(effect: Effect, limit: Duration) -> Self {
        let text = format!("the server did not answer within {limit:?}");
        Self { again: false, ..Self::doubtful(effect, text) }
    }

    /// Sent on a stream that ended before the answer.
    pub(super) fn cut(effect: Effect) -> Self {
        Self::doubtful(effect, NO_ANSWER.to_owned())
    }

    /// Sent on a stream that this ended before the answer.
    pub(super) fn cut_by(effect: Effect, status: Status) -> Self {
        let failure = Self::cut(effect);
        Self { error: failure.error.caused_by(status), ..failure }
    }

    /// Never sent.
    pub(super) fn unsent() -> Self {
        let text = "the connection to the server broke before the request was sent";
        Self { again: true, error: Error::unavailable(text) }
    }

    /// Answered with something that says nothing here.
    pub(super) fn malformed() -> Self {
        Self { again: false, error: Error::unknown(MALFORMED) }
    }

    /// Sent, and no usable answer.
    fn doubtful(effect: Effect, text: String) -> Self {
        match effect {
            Effect::Read => Self { again: true, error: Error::unavailable(text) },
            Effect::Write => Self { again: false, error: Error::unknown(text) },
        }
    }
}

/// The code that the server itself gave; `None` where something else speaks.
fn code_of(status: &Status) -> Option<Code> {
    let info = status.get_details_error_info()?;
    Code::by_name(&info.reason).filter(|_| info.domain == tenure_api::DOMAIN)
}

/// Whether a server has no streams of calls, or none left for this client.
pub(super) fn has_no_exchange(status: &Status) -> bool {
    status.code() == tonic::Code::Unimplemented || code_of(status) == Some(Code::LimitReached)
}

/// The error that the server's code means to a caller of a store.
pub(super) fn said(code: Code, message: &str) -> Error {
    let kind = match code {
        Code::Held => ErrorKind::Held,
        Code::TimedOut => ErrorKind::TimedOut,
        Code::Lost => ErrorKind::Lost,
        Code::NotFound => ErrorKind::NotFound,
        Code::WrongOwner => ErrorKind::WrongOwner,
        Code::Unavailable | Code::ShuttingDown | Code::LimitReached => ErrorKind::Unavailable,
        // A fault of the server says nothing about what was done before it.
        Code::Unknown | Code::Internal => ErrorKind::Unknown,
        Code::Invalid | Code::TooLarge | Code::NoSuchPlace => ErrorKind::Invalid,
        Code::Unsupported | Code::NoSuchMethod => ErrorKind::Unsupported,
        Code::Unauthenticated | Code::Forbidden | Code::StoreDenied => ErrorKind::Denied,
        Code::Mismatch => ErrorKind::Mismatch,
        Code::Damaged => ErrorKind::Damaged,
    };
    Error::new(kind, message)
}

fn connect_error(status: &Status) -> Option<&(dyn StdError + 'static)> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;
    use crate::error::Retry;

    fn status(code: Code) -> Status {
        let details = ErrorDetails::with_error_info(code.name(), tenure_api::DOMAIN, []);
        Status::with_error_details(code.fault().grpc.into(), "why", details)
    }

    #[test]
    fn what_the_table_says_about_a_retry_is_what_the_error_says() {
        for code in Code::ALL {
            for effect in [Effect::Read, Effect::Write] {
                let failure = Failure::of(status(code), effect);
                let retry = match failure.error.retry() {
                    Retry::Never => "never",
                    Retry::Safe => "safe",
                    Retry::Unknown => "unknown",
                };
                assert_eq!(retry, code.fault().retry, "{code}");
                assert_eq!((failure.error.to_string().as_str(), failure.again), ("why", false));
            }
        }
    }

    #[test]
    fn every_kind_of_error_comes_through_the_wire_as_it_is() {
        for (code, kind) in [
            (Code::Held, ErrorKind::Held),
            (Code::TimedOut, ErrorKind::TimedOut),
            (Code::Lost, ErrorKind::Lost),
            (Code::NotFound, ErrorKind::NotFound),
            (Code::WrongOwner, ErrorKind::WrongOwner),
            (Code::Unavailable, ErrorKind::Unavailable),
            (Code::Unknown, ErrorKind::Unknown),
            (Code::Invalid, ErrorKind::Invalid),
            (Code::Unsupported, ErrorKind::Unsupported),
            (Code::StoreDenied, ErrorKind::Denied),
            (Code::Mismatch, ErrorKind::Mismatch),
            (Code::Damaged, ErrorKind::Damaged),
        ] {
            assert_eq!(Failure::of(status(code), Effect::Write).error.kind(), kind, "{code}");
        }
    }

    #[test]
    fn what_was_on_a_stream_may_have_been_done_whatever_ended_the_stream() {
        for status in Code::ALL.map(status).into_iter().chain([Status::unavailable("reset")]) {
            let failure = Failure::cut_by(Effect::Write, status.clone());
            assert_eq!((failure.error.kind(), failure.again), (ErrorKind::Unknown, false));
            let failure = Failure::cut_by(Effect::Read, status);
            assert_eq!((failure.error.kind(), failure.again), (ErrorKind::Unavailable, true));
        }
        assert_eq!(Failure::unsent().error.retry(), Retry::Safe);
    }

    #[test]
    fn a_server_without_streams_of_calls_is_known() {
        assert!(has_no_exchange(&Status::unimplemented("")));
        assert!(has_no_exchange(&status(Code::NoSuchMethod)));
        assert!(has_no_exchange(&status(Code::LimitReached)));
        assert!(!has_no_exchange(&status(Code::Unauthenticated)));
        assert!(!has_no_exchange(&Status::unavailable("")));
    }

    #[test]
    fn without_the_servers_word_a_write_may_have_been_made() {
        for code in [tonic::Code::Unavailable, tonic::Code::Internal, tonic::Code::Cancelled] {
            let of = |effect| Failure::of(Status::new(code, "broken pipe"), effect);
            assert_eq!(of(Effect::Write).error.kind(), ErrorKind::Unknown);
            assert!(!of(Effect::Write).again);
            assert_eq!(of(Effect::Read).error.kind(), ErrorKind::Unavailable);
            assert!(of(Effect::Read).again);
        }
        let other = Failure::of(Status::unimplemented(""), Effect::Write);
        assert_eq!(other.error.kind(), ErrorKind::Unsupported);
    }
}

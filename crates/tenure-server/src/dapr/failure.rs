//! A failed call of Dapr's API, in Dapr's words.

use std::collections::HashMap;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use tenure_api::{Code, DAPR_DOMAIN, DaprCode};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

use crate::failure::Failure;

/// A failed call: its row of Dapr's table, and what to tell the caller.
#[derive(Clone, Debug)]
pub(super) struct DaprFailure {
    pub(super) code: DaprCode,
    pub(super) message: String,
}

impl DaprFailure {
    pub(super) fn new(code: DaprCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(DaprCode::MalformedRequest, message)
    }

    /// A body that cannot be read as JSON.
    pub(super) fn body(what: impl std::fmt::Display) -> Self {
        Self::malformed(format!("failed deserializing HTTP body: {what}"))
    }

    /// A lock that alpha1 could not take.
    pub(super) fn try_lock(what: impl std::fmt::Display) -> Self {
        Self::new(DaprCode::TryLock, format!("failed to try acquiring lock: {what}"))
    }

    /// A lock that could not be given back.
    pub(super) fn unlock(what: impl std::fmt::Display) -> Self {
        Self::new(DaprCode::Unlock, format!("failed to release lock: {what}"))
    }

    /// As alpha1 tells a failure of the server: whatever went wrong, the store has failed to do it.
    /// Only a lack of rights is none of the store's.
    pub(super) fn alpha1(failure: Failure, otherwise: fn(Failure) -> Self) -> Self {
        match failure.code {
            Code::Forbidden => Self::new(DaprCode::PermissionDenied, failure.message),
            _ => otherwise(failure),
        }
    }

    /// As alpha2 tells a failure of the server.
    pub(super) fn alpha2(failure: Failure, otherwise: fn(Failure) -> Self) -> Self {
        let code = match failure.code {
            Code::Held => {
                return Self::new(DaprCode::Held, "the resource is already locked");
            }
            Code::TimedOut => {
                let text = "the resource is already locked, and the longest wait is over";
                return Self::new(DaprCode::TimedOut, text);
            }
            Code::NotFound | Code::WrongOwner => {
                let text = "the resource is locked with a different lock ID or the lock does not \
                            exist";
                return Self::new(DaprCode::NotFound, text);
            }
            Code::Lost => DaprCode::Lost,
            Code::Invalid | Code::TooLarge => DaprCode::MalformedRequest,
            Code::LimitReached => DaprCode::LimitReached,
            Code::Forbidden => DaprCode::PermissionDenied,
            Code::NoSuchPlace => DaprCode::StoreNotFound,
            Code::Unavailable | Code::ShuttingDown => DaprCode::Unavailable,
            _ => return otherwise(failure),
        };
        Self::new(code, failure.message)
    }

    /// A lock that alpha2 could not take.
    pub(super) fn lock(failure: Failure) -> Self {
        let otherwise =
            |failure| Self::new(DaprCode::Lock, format!("failed to acquire lock: {failure}"));
        Self::alpha2(failure, otherwise)
    }

    /// The status as alpha1 gives it: a code and a text, and nothing more.
    pub(super) fn plain_status(self) -> Status {
        Status::new(self.code.fault().grpc.into(), self.message)
    }

    /// The status as alpha2 gives it: with the exact code in a `google.rpc.ErrorInfo`.
    pub(super) fn status(self) -> Status {
        let fault = self.code.fault();
        let details = ErrorDetails::with_error_info(fault.name, DAPR_DOMAIN, HashMap::new());
        Status::with_error_details(fault.grpc.into(), self.message, details)
    }
}

/// A name in the path that is no text.
impl From<PathRejection> for DaprFailure {
    fn from(rejection: PathRejection) -> Self {
        Self::malformed(rejection.body_text())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    error_code: &'static str,
    message: String,
}

impl IntoResponse for DaprFailure {
    fn into_response(self) -> Response {
        let fault = self.code.fault();
        let status = StatusCode::from_u16(fault.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = Body { error_code: fault.name, message: self.message };
        (status, Json(body)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha1_has_only_its_own_codes() {
        for code in Code::ALL {
            let told = DaprFailure::alpha1(Failure::new(code, "x"), DaprFailure::unlock);
            let expected = match code {
                Code::Forbidden => DaprCode::PermissionDenied,
                _ => DaprCode::Unlock,
            };
            assert_eq!(told.code, expected, "{code}");
        }
    }

    #[test]
    fn alpha2_tells_held_from_down() {
        let told = |code| DaprFailure::lock(Failure::new(code, "x"));
        assert_eq!(told(Code::Held).code, DaprCode::Held);
        assert_eq!(told(Code::Held).message, "the resource is already locked");
        assert_eq!(told(Code::Unavailable).code, DaprCode::Unavailable);
        assert_eq!(told(Code::Unknown).message, "failed to acquire lock: x");
        assert_eq!(told(Code::Unknown).code.fault().http, 500);
    }
}

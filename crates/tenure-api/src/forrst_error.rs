//! Forrst's table of errors: the protocol's own, those of its atomic locks, and one of tenure's.

use std::fmt;

/// What went wrong, as the Forrst protocol tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForrstCode {
    /// The body is no JSON.
    ParseError,
    /// The body is no request.
    InvalidRequest,
    /// The protocol's major version is another.
    InvalidProtocolVersion,
    /// There is no function of that name.
    FunctionNotFound,
    /// The function has no such version.
    VersionNotFound,
    /// The function is switched off.
    FunctionDisabled,
    /// An argument of the function or an option of an extension is wrong.
    InvalidArguments,
    /// The arguments do not fit the function's schema.
    SchemaValidationFailed,
    /// The extension is not known here.
    ExtensionNotSupported,
    /// The extension cannot be used with this function.
    ExtensionNotApplicable,
    /// The caller did not say who it is.
    Unauthorized,
    /// The caller may not do this.
    Forbidden,
    /// What the function is about does not exist.
    NotFound,
    /// What the function is about is in another state.
    Conflict,
    /// What the function is about exists no more.
    Gone,
    /// The deadline of the request has passed.
    DeadlineExceeded,
    /// The caller has as much as it may have.
    RateLimited,
    /// A fault of the server.
    InternalError,
    /// Something that is needed cannot be used at the moment.
    Unavailable,
    /// Something that is needed failed.
    DependencyError,
    /// The same idempotency key came with other arguments.
    IdempotencyConflict,
    /// A call with the same idempotency key is under way.
    IdempotencyProcessing,
    /// The server is being looked after.
    ServerMaintenance,
    /// The function is being looked after.
    FunctionMaintenance,
    /// The call was cancelled.
    Cancelled,
    /// No call has this cancellation token.
    CancellationTokenUnknown,
    /// The call with this cancellation token has ended.
    CancellationTooLate,
    /// No call that runs in the background has this id.
    AsyncOperationNotFound,
    /// The call in the background failed.
    AsyncOperationFailed,
    /// The call in the background cannot be cancelled.
    AsyncCannotCancel,
    /// No call is kept under this id to be made later.
    ReplayNotFound,
    /// The call that was kept has become too old.
    ReplayExpired,
    /// The call that was kept has been made.
    ReplayAlreadyComplete,
    /// The call that was kept has been cancelled.
    ReplayCancelled,
    /// Another holds the lock, and the caller did not want to wait.
    LockAcquisitionFailed,
    /// Another held the lock until the wait was over.
    LockTimeout,
    /// Nobody holds the lock.
    LockNotFound,
    /// Another holds the lock.
    LockOwnershipMismatch,
    /// The owner has already given the lock back.
    LockAlreadyReleased,
    /// tenure's own: the lock was lost under the function, which was stopped.
    LockLost,
}

/// What a [`ForrstCode`] becomes: one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForrstFault {
    /// `code` in JSON.
    pub name: &'static str,
    /// The HTTP status of a response with this error alone.
    pub http: u16,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

const fn row(name: &'static str, http: u16, retryable: bool) -> ForrstFault {
    ForrstFault { name, http, retryable }
}

/// The HTTP status of a response with several errors, and of a code that is not in the table.
pub const FORRST_HTTP_OTHER: u16 = 400;

impl ForrstCode {
    /// Every code.
    pub const ALL: [Self; 40] = [
        Self::ParseError,
        Self::InvalidRequest,
        Self::InvalidProtocolVersion,
        Self::FunctionNotFound,
        Self::VersionNotFound,
        Self::FunctionDisabled,
        Self::InvalidArguments,
        Self::SchemaValidationFailed,
        Self::ExtensionNotSupported,
        Self::ExtensionNotApplicable,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::Conflict,
        Self::Gone,
        Self::DeadlineExceeded,
        Self::RateLimited,
        Self::InternalError,
        Self::Unavailable,
        Self::DependencyError,
        Self::IdempotencyConflict,
        Self::IdempotencyProcessing,
        Self::ServerMaintenance,
        Self::FunctionMaintenance,
        Self::Cancelled,
        Self::CancellationTokenUnknown,
        Self::CancellationTooLate,
        Self::AsyncOperationNotFound,
        Self::AsyncOperationFailed,
        Self::AsyncCannotCancel,
        Self::ReplayNotFound,
        Self::ReplayExpired,
        Self::ReplayAlreadyComplete,
        Self::ReplayCancelled,
        Self::LockAcquisitionFailed,
        Self::LockTimeout,
        Self::LockNotFound,
        Self::LockOwnershipMismatch,
        Self::LockAlreadyReleased,
        Self::LockLost,
    ];

    /// Its row of the table.
    #[must_use]
    pub const fn fault(self) -> ForrstFault {
        match self {
            //                                    code                          HTTP retryable
            Self::ParseError => row("PARSE_ERROR", 400, false),
            Self::InvalidRequest => row("INVALID_REQUEST", 400, false),
            Self::InvalidProtocolVersion => row("INVALID_PROTOCOL_VERSION", 400, false),
            Self::FunctionNotFound => row("FUNCTION_NOT_FOUND", 404, false),
            Self::VersionNotFound => row("VERSION_NOT_FOUND", 404, false),
            Self::FunctionDisabled => row("FUNCTION_DISABLED", 503, true),
            Self::InvalidArguments => row("INVALID_ARGUMENTS", 400, false),
            Self::SchemaValidationFailed => row("SCHEMA_VALIDATION_FAILED", 422, false),
            Self::ExtensionNotSupported => row("EXTENSION_NOT_SUPPORTED", 400, false),
            Self::ExtensionNotApplicable => row("EXTENSION_NOT_APPLICABLE", 400, false),
            Self::Unauthorized => row("UNAUTHORIZED", 401, false),
            Self::Forbidden => row("FORBIDDEN", 403, false),
            Self::NotFound => row("NOT_FOUND", 404, false),
            Self::Conflict => row("CONFLICT", 409, false),
            Self::Gone => row("GONE", 410, false),
            Self::DeadlineExceeded => row("DEADLINE_EXCEEDED", 408, true),
            Self::RateLimited => row("RATE_LIMITED", 429, true),
            Self::InternalError => row("INTERNAL_ERROR", 500, true),
            Self::Unavailable => row("UNAVAILABLE", 503, true),
            Self::DependencyError => row("DEPENDENCY_ERROR", 502, true),
            Self::IdempotencyConflict => row("IDEMPOTENCY_CONFLICT", 409, false),
            Self::IdempotencyProcessing => row("IDEMPOTENCY_PROCESSING", 409, true),
            Self::ServerMaintenance => row("SERVER_MAINTENANCE", 503, true),
            Self::FunctionMaintenance => row("FUNCTION_MAINTENANCE", 503, true),
            Self::Cancelled => row("CANCELLED", 499, false),
            Self::CancellationTokenUnknown => row("CANCELLATION_TOKEN_UNKNOWN", 404, false),
            Self::CancellationTooLate => row("CANCELLATION_TOO_LATE", 409, false),
            Self::AsyncOperationNotFound => row("ASYNC_OPERATION_NOT_FOUND", 404, false),
            Self::AsyncOperationFailed => row("ASYNC_OPERATION_FAILED", 500, false),
            Self::AsyncCannotCancel => row("ASYNC_CANNOT_CANCEL", 400, false),
            Self::ReplayNotFound => row("REPLAY_NOT_FOUND", 404, false),
            Self::ReplayExpired => row("REPLAY_EXPIRED", 410, false),
            Self::ReplayAlreadyComplete => row("REPLAY_ALREADY_COMPLETE", 409, false),
            Self::ReplayCancelled => row("REPLAY_CANCELLED", 410, false),
            Self::LockAcquisitionFailed => row("LOCK_ACQUISITION_FAILED", 423, true),
            Self::LockTimeout => row("LOCK_TIMEOUT", 423, true),
            Self::LockNotFound => row("LOCK_NOT_FOUND", 404, false),
            Self::LockOwnershipMismatch => row("LOCK_OWNERSHIP_MISMATCH", 403, false),
            Self::LockAlreadyReleased => row("LOCK_ALREADY_RELEASED", 409, false),
            Self::LockLost => row("LOCK_LOST", 409, false),
        }
    }

    /// `code` in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.fault().name
    }
}

impl fmt::Display for ForrstCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own() {
        for code in ForrstCode::ALL {
            let same = ForrstCode::ALL.into_iter().filter(|other| other.name() == code.name());
            assert_eq!(same.count(), 1, "{code}");
        }
    }

    #[test]
    fn of_the_lock_codes_only_two_are_worth_another_try() {
        let lock = ForrstCode::ALL.into_iter().filter(|code| code.name().starts_with("LOCK_"));
        let retryable: Vec<_> = lock.filter(|code| code.fault().retryable).collect();
        assert_eq!(retryable, [ForrstCode::LockAcquisitionFailed, ForrstCode::LockTimeout]);
    }
}

//! A failure as gRPC tells it.

use std::collections::HashMap;

use tenure_api::DOMAIN;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::failure::Failure;

/// The status of a failure: the canonical code, and the exact one in a `google.rpc.ErrorInfo`.
pub(crate) fn status_of(failure: Failure) -> Status {
    let fault = failure.code.fault();
    let more = HashMap::from([("retry".to_owned(), fault.retry.to_owned())]);
    let details = ErrorDetails::with_error_info(fault.name, DOMAIN, more);
    Status::with_error_details(Code::from(fault.grpc), failure.message, details)
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        status_of(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_code_travels_beside_the_canonical_one() {
        let status = status_of(Failure::new(tenure_api::Code::WrongOwner, "no"));
        assert_eq!(status.code(), Code::FailedPrecondition);
        let info = status.get_details_error_info().unwrap();
        assert_eq!((&*info.reason, &*info.domain), ("wrong_owner", "tenure"));
    }
}

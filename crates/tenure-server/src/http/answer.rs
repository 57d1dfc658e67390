//! A failure as HTTP tells it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use tenure_api::Code;

use super::json::{ErrorBody, ErrorText};
use crate::failure::Failure;

/// The answer to a request that failed, with the status of the error table.
pub(crate) fn answer_of(failure: &Failure) -> Response {
    answer(failure, failure.code.fault().http)
}

/// The same with another status.
pub(super) fn answer(failure: &Failure, status: u16) -> Response {
    let fault = failure.code.fault();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let error = ErrorText {
        code: fault.name.to_owned(),
        message: failure.message.clone(),
        retry: fault.retry.to_owned(),
    };
    let mut response = (status, Json(ErrorBody { error })).into_response();
    let headers = response.headers_mut();
    if failure.code == Code::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if matches!(failure.code, Code::LimitReached | Code::Unavailable | Code::ShuttingDown) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        answer_of(&self)
    }
}

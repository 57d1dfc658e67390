//! The body of a request: read up to a limit, as JSON whatever its type says, and passed over where
//! it is refused.

use std::error::Error;

use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tenure_api::Code;
use tonic::Status;

use crate::failure::{Failure, without_values};

/// How large a body may be.
pub(crate) const BYTES_MAX: usize = 64 * 1024;

/// How much of a body that is refused is passed over: twice what any that is taken may have.
const PASSED_OVER_MAX: usize = 8 * 1024 * 1024;

/// Reads a JSON body; an empty one is the default.
pub(super) async fn json<T: DeserializeOwned + Default>(body: Body) -> Result<T, Failure> {
    let bytes = read(body, BYTES_MAX).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    // Serde would take a list for an object too.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Failure::invalid("the body is wrong at line 1 column 1: expected an object"));
    }
    // The text of the error names the field and the place, and never repeats a value.
    serde_json::from_slice(&bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let what = told(&error);
        Failure::invalid(format!("the body is wrong at line {line} column {column}: {what}"))
    })
}

/// Reads a body up to a limit.
pub(crate) async fn read(mut body: Body, max: usize) -> Result<bytes::Bytes, Failure> {
    match Limited::new(&mut body, max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            pass_over(body).await;
            Err(Failure::new(Code::TooLarge, format!("the body must have at most {max} bytes")))
        }
        Err(error) => {
            let what =
                behind(&*error).map_or("the body could not be read to its end", Status::message);
            Err(Failure::invalid(what))
        }
    }
}

/// Passes over what is left of a body that is refused. What is larger still, or too slow, is cut
/// off.
pub(crate) async fn pass_over(body: Body) {
    let mut body = Limited::new(body, PASSED_OVER_MAX);
    while let Some(Ok(_)) = body.frame().await {}
}

/// What a bound on the body has said.
fn behind<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    error.downcast_ref().or_else(|| behind(error.source()?))
}

/// What is wrong with a JSON text, without the values in it: one of them may be a secret.
pub(crate) fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    match error.classify() {
        serde_json::error::Category::Data => without_values(text),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::json::UnlockBody;

    #[tokio::test]
    async fn a_wrong_body_is_told_without_its_values() {
        let failure = json::<UnlockBody>(Body::from(r#"{"lock_id": 12345}"#)).await.unwrap_err();
        assert!(failure.message.contains("expected a string"), "{}", failure.message);
        assert!(!failure.message.contains("12345"), "{}", failure.message);
        let failure = json::<UnlockBody>(Body::from(r#"{"lokid": "x"}"#)).await.unwrap_err();
        assert!(failure.message.contains("unknown field"), "{}", failure.message);
        for body in ["[]", "[null, false, \"x\"]", " \"x\"", "null"] {
            let failure = json::<UnlockBody>(Body::from(body)).await.unwrap_err();
            assert!(failure.message.contains("expected an object"), "{body}: {}", failure.message);
        }
    }

    #[tokio::test]
    async fn a_body_has_a_limit() {
        let failure = read(Body::from(vec![b' '; 65]), 64).await.unwrap_err();
        assert_eq!(failure.code, Code::TooLarge);
        assert!(failure.message.contains("64"));
    }
}

//! JSON as Dapr reads it: by the rules for protocol buffers. Names are in camel case or as the
//! message has them, unknown ones are passed over, `null` is as good as nothing, and a whole number
//! may be in quotes.

use std::fmt;

use axum::body::Body;
use serde::de::{DeserializeOwned, Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tenure_api::{Code, DaprCode};

use crate::dapr::failure::DaprFailure;
use crate::dapr::go_duration;
use crate::http::body::{read, told};

/// How large a body Dapr reads.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Asking for a lock with an owner and an expiry.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TryLockBody {
    #[serde(alias = "resource_id")]
    pub(super) resource_id: Option<String>,
    #[serde(alias = "lock_owner")]
    pub(super) lock_owner: Option<String>,
    #[serde(alias = "expiry_in_seconds", deserialize_with = "int32")]
    pub(super) expiry_in_seconds: i32,
}

/// Giving it back.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct UnlockBody {
    #[serde(alias = "resource_id")]
    pub(super) resource_id: Option<String>,
    #[serde(alias = "lock_owner")]
    pub(super) lock_owner: Option<String>,
}

/// Asking for a lock of alpha2.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LockBody {
    pub(super) immediate: Option<bool>,
    pub(super) ttl: Option<String>,
}

impl LockBody {
    pub(super) fn ttl(&self) -> Result<Option<std::time::Duration>, DaprFailure> {
        match self.ttl.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => go_duration::parse(text).map_err(DaprFailure::body),
        }
    }
}

/// Giving it back, or taking it away.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReleaseBody {
    pub(super) force: Option<bool>,
    #[serde(rename = "lockID", alias = "lockId", alias = "lock_id")]
    pub(super) lock_id: Option<String>,
    pub(super) reason: Option<String>,
}

/// Reads a body whatever its type says; an empty one is the default.
pub(super) async fn json<T: DeserializeOwned + Default>(body: Body) -> Result<T, DaprFailure> {
    let bytes = bytes(body).await?;
    if bytes.is_empty() {
        return Ok(T::default());
    }
    // Serde would take a list for a message too.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(DaprFailure::body("expected an object (line 1:1)"));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        DaprFailure::body(format_args!("{} (line {line}:{column})", told(&error)))
    })
}

/// Reads a body up to Dapr's limit.
pub(super) async fn bytes(body: Body) -> Result<bytes::Bytes, DaprFailure> {
    read(body, BYTES_MAX).await.map_err(|failure| {
        let what = match failure.code {
            Code::TooLarge => "http: request body too large".to_owned(),
            _ => failure.message,
        };
        DaprFailure::new(DaprCode::BodyRead, format!("failed to read request body: {what}"))
    })
}

fn int32<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    from.deserialize_any(Int32)
}

#[derive(Clone, Copy)]
struct Int32;

impl Visitor<'_> for Int32 {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of 32 bits")
    }

    fn visit_unit<E: Error>(self) -> Result<i32, E> {
        Ok(0)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<i32, E> {
        i32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<i32, E> {
        i32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    /// `1.0` and `1e2` are whole numbers too.
    fn visit_f64<E: Error>(self, value: f64) -> Result<i32, E> {
        let is_whole = value.fract() == 0.0;
        if !is_whole || value < f64::from(i32::MIN) || value > f64::from(i32::MAX) {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and within bounds")]
        let whole = value as i32;
        Ok(whole)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<i32, E> {
        let wrong = || E::invalid_value(Unexpected::Str(value), &self);
        // What a number is, in JSON: no plus, no spaces, no names.
        let is_number = |c: u8| c.is_ascii_digit() || c == b'-';
        if !value.bytes().next().is_some_and(is_number) || value.ends_with(char::is_whitespace) {
            return Err(wrong());
        }
        match serde_json::from_str::<serde_json::Number>(value) {
            Ok(number) => match number.as_i64() {
                Some(whole) => self.visit_i64(whole),
                None => self.visit_f64(number.as_f64().ok_or_else(wrong)?),
            },
            Err(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn expiry(body: &'static str) -> Result<i32, String> {
        let body = json::<TryLockBody>(Body::from(body)).await;
        body.map(|body| body.expiry_in_seconds).map_err(|failure| failure.message)
    }

    #[tokio::test]
    async fn whole_numbers_come_in_many_forms() {
        for (body, expected) in [
            ("", 0),
            ("{}", 0),
            (r#"{"expiryInSeconds": null}"#, 0),
            (r#"{"expiryInSeconds": 10}"#, 10),
            (r#"{"expiryInSeconds": "10"}"#, 10),
            (r#"{"expiryInSeconds": 1e1}"#, 10),
            (r#"{"expiryInSeconds": "1e1"}"#, 10),
            (r#"{"expiryInSeconds": 10.0}"#, 10),
            (r#"{"expiry_in_seconds": -3, "other": [1]}"#, -3),
        ] {
            assert_eq!(expiry(body).await, Ok(expected), "{body}");
        }
    }

    #[tokio::test]
    async fn everything_else_is_malformed() {
        for body in [
            " ",
            "null",
            "[]",
            "{",
            "{} {}",
            r#"{"expiryInSeconds": 1.5}"#,
            r#"{"expiryInSeconds": true}"#,
            r#"{"expiryInSeconds": " 1"}"#,
            r#"{"expiryInSeconds": "1 "}"#,
            r#"{"expiryInSeconds": ""}"#,
            r#"{"expiryInSeconds": "+1"}"#,
            r#"{"expiryInSeconds": 2147483648}"#,
            r#"{"expiryInSeconds": 1, "expiry_in_seconds": 1}"#,
            r#"{"resourceId": 5}"#,
        ] {
            let text = expiry(body).await.unwrap_err();
            assert!(text.starts_with("failed deserializing HTTP body: "), "{body}: {text}");
        }
    }
}

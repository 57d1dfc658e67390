//! Documents that are handed on and answers that come back, for the fuzz targets.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::passed::Passed;
use super::under_lock::{AboutLock, Left, under_lock};
use crate::extension::{Setting, Unknown, Wishes, check_spelling};
use crate::request::{LOCK, Request};
use crate::response::Told;

/// The document as it would be handed on under a lock with this fence, with so much left of its
/// deadline; `None` when it would not.
#[must_use]
pub fn handed_on(body: &[u8], key: &str, fence: u64, remaining: Duration) -> Option<Bytes> {
    let request = Request::read(body).ok()?;
    check_spelling(&request.extensions).ok()?;
    let setting =
        Setting { function: &request.function, is_system: false, unknown: Unknown::Ignore };
    let wishes = Wishes::read(&request.extensions, setting).ok()?;
    if request.context.get(LOCK).is_some() {
        return None;
    }
    let left = wishes.deadline.as_ref().map(|wish| Left { options: &wish.options, remaining });
    under_lock(&request, &AboutLock { key, fence }, left).ok()
}

/// The answer as the caller would get it, with this told beside it, and whether the function may
/// have run; `None` when it is no answer to the request.
#[must_use]
pub fn passed_on(request: &[u8], answer: &[u8], urn: &str, data: &Value) -> Option<(Bytes, bool)> {
    let request = Request::read(request).ok()?;
    let passed = Passed::read(200, Bytes::copy_from_slice(answer), &request)?;
    Some((passed.write(&[Told::new(urn, data)]).ok()?, passed.was_done))
}

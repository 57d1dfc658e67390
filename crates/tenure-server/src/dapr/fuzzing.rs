//! Requests by Dapr's API, for the fuzz targets.

use std::time::Duration;

use super::go_duration::parse;
pub use super::http::fuzzing::{read_dapr_body, tidied_address};

/// Reads a duration as Go writes it; `None` for one that is not positive.
///
/// # Errors
/// As clients get them.
pub fn go_duration(text: &str) -> Result<Option<Duration>, String> {
    parse(text)
}

//! Decoders that callers never see, for the targets in `fuzz/`. No part of the API.
//!
//! | | what it reads | target |
//! |---|---|---|
//! | [`components`] | Dapr's components | `component` |
//! | [`read_body`] | bodies of requests by HTTP | `http` |
//! | [`read_place`], [`read_listing`], [`read_watching`] | their paths and queries | `http` |
//! | [`read_dapr_body`], [`tidied_address`] | requests by Dapr's API | `http` |
//! | [`read_claim`], [`read_grant`] | what messages ask of a store | `protobuf` |
//! | [`read_lock`], [`read_hold`] | and for a lock | `protobuf` |
//! | [`go_duration`] | durations as Go writes them | `duration` |
//!
//! The configuration is read by [`Config`], which is public: that is the target `config`;
//! and headers by [`Door`], which is too, and by [`identify_for_dapr`]: that is the target `door`.

use http::HeaderMap;

use crate::access::Identity;
use crate::config::Config;
pub use crate::dapr::fuzzing::{go_duration, read_dapr_body, tidied_address};
use crate::door::Door;
use crate::failure::Failure;
pub use crate::grpc::fuzzing::{read_claim, read_grant, read_hold, read_lock};
pub use crate::http::fuzzing::{read_body, read_listing, read_place, read_watching};

/// The configuration with the stores of a file of components, and what was passed over.
///
/// # Errors
/// What is wrong with the file.
pub fn components(text: &str) -> Result<(Config, Vec<String>), String> {
    let mut config = Config::default();
    let notes = config.add_components(text)?;
    Ok((config, notes))
}

/// Who brings these headers to Dapr's API, and no certificate.
///
/// # Errors
/// As clients get them.
pub fn identify_for_dapr(door: &Door, headers: &HeaderMap) -> Result<Identity, Failure> {
    door.identify_for_dapr(headers, &[])
}

//! The wire of tenure: what clients in every language and the server agree on.
//!
//! | | |
//! |---|---|
//! | [`tenure_v1`] | tenure's own API: `LockService` for everyone, `StoreService` for the library |
//! | [`dapr_v1`] | the part of Dapr's runtime API that has to do with locks |
//! | [`Code`] | the one table of errors: code, HTTP, gRPC, exit code, retry |
//! | [`DaprCode`] | the same for Dapr's API: `errorCode`, HTTP, gRPC |
//! | [`ForrstCode`] | the same for Forrst: `code`, HTTP, retry |
//! | [`duration`] | durations as people write them |
//! | [`rfc3339`] | times of day as text |
//! | [`time`] | durations and timestamps as protocol buffers have them |
//! | [`OPENAPI`] | the HTTP API as an OpenAPI document |
//! | [`DESCRIPTORS`], [`DAPR_DESCRIPTORS`] | the descriptors of all of it, for reflection |
//!
//! The modules of messages are made from `proto/` by `tests/generated.rs`, which fails when they
//! are not up to date. Nothing is generated when this crate is built: it needs no `protoc`.

mod dapr_error;
pub mod duration;
mod error;
mod forrst_error;
pub mod rfc3339;
pub mod time;

pub use dapr_error::{DAPR_DOMAIN, DaprCode, DaprFault};
pub use error::{Code, DOMAIN, Fault};
pub use forrst_error::{FORRST_HTTP_OTHER, ForrstCode, ForrstFault};

/// tenure's own API, version 1.
#[allow(missing_docs, clippy::all, clippy::nursery, clippy::pedantic, clippy::restriction)]
#[allow(rustdoc::all, unreachable_pub, unused, unused_qualifications)]
#[rustfmt::skip]
#[path = "generated/tenure.v1.rs"]
pub mod tenure_v1;

/// The part of Dapr's runtime API that has to do with locks.
#[allow(missing_docs, clippy::all, clippy::nursery, clippy::pedantic, clippy::restriction)]
#[allow(rustdoc::all, unreachable_pub, unused, unused_qualifications)]
#[rustfmt::skip]
#[path = "generated/dapr.proto.runtime.v1.rs"]
pub mod dapr_v1;

/// The HTTP API as an OpenAPI document.
pub const OPENAPI: &str = include_str!("../openapi/tenure.json");

/// A `FileDescriptorSet` of every file under `proto/`, with what they import.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// Of these, the one that Dapr's own ports serve.
pub const DAPR_DESCRIPTORS: &[u8] = include_bytes!("generated/dapr_descriptors.bin");

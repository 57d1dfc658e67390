//! Dapr's API, byte for byte: HTTP by hand, and gRPC.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod alpha1;
mod alpha2;
mod alpha2_grpc;
mod alpha2_stream;
mod components;
#[path = "../wire/failing.rs"]
mod failing;
mod outage;
mod sidecar;
mod stage;

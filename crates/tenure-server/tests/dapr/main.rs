//! Dapr's API, byte for byte: HTTP by hand, and gRPC.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod alpha1;
mod alpha2;
mod alpha2_grpc;
mod alpha2_stream;
mod components;
mod failing;
mod sidecar;
mod stage;

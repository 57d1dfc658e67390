//! What only the `nats` store must do, on real servers.

#![allow(clippy::unwrap_used)]

#[path = "nats/bucket.rs"]
mod bucket;
#[path = "nats/cluster.rs"]
mod cluster;
#[path = "nats/common.rs"]
mod common;
#[path = "nats/expiry.rs"]
mod expiry;
#[path = "nats/failures.rs"]
mod failures;
#[path = "nats/login.rs"]
mod login;
#[path = "nats/traces.rs"]
mod traces;

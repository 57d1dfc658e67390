//! What only the `nats` store must do, on real servers.

#![allow(clippy::unwrap_used)]

#[path = "nats/bucket.rs"]
mod bucket;
#[path = "nats/cluster.rs"]
mod cluster;
#[path = "nats/expiry.rs"]
mod expiry;
#[path = "nats/failures.rs"]
mod failures;
#[path = "nats/login.rs"]
mod login;
#[path = "nats/making.rs"]
mod making;
#[path = "nats/marks.rs"]
mod marks;
#[path = "nats/raw.rs"]
mod raw;
#[path = "nats/traces.rs"]
mod traces;

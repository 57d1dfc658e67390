//! What is special to Redis, on real servers: mixed fleets, restarts, layouts, access, findings.

#![allow(clippy::unwrap_used)]

mod access;
mod counters;
mod findings;
mod layouts;
mod memory;
mod mixed_fleet;
mod restart;
mod stage;
mod tls;

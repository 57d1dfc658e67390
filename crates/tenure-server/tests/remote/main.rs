//! The server as a store, by `tenure://`: what the conformance suite does not ask.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod encrypted;
mod exchange;
mod rights;
mod same_lock;
mod stage;
mod told;
mod watches;

//! The command as a process, on the embedded store, each test in a folder of its own.

// Clippy takes only what is inside of a test function for a test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod at_least;
mod child;
mod default_store;
mod elect;
mod exclusion;
mod exit_codes;
mod gone;
mod help;
mod lost;
mod max_hold;
mod once_per;
#[cfg(feature = "remote")]
mod remote;
mod sandbox;
mod serve;
mod signals;
mod terminal;
mod tether;
mod waiting;

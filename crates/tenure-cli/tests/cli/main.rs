//! The command as a process, on the embedded store, each test in a folder of its own.

// Clippy takes only what is inside of a test function for a test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bench;
mod child;
mod default_store;
mod exclusion;
mod exit_codes;
mod help;
mod lost;
#[cfg(feature = "remote")]
mod remote;
mod sandbox;
mod serve;
mod signals;
mod verify;
mod waiting;

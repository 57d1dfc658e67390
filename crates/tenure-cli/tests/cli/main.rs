//! The command as a process, on the embedded store, each test in a folder of its own.

// Clippy takes only what is inside of a test function for a test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod acquire;
mod at_least;
mod begin;
mod bench;
mod broken_pipe;
mod child;
mod config;
mod default_store;
mod doctor;
mod elect;
mod errors;
mod every_store;
mod exclusion;
mod exit_codes;
mod force_release;
mod gone;
mod help;
mod list;
mod list_watch;
mod lost;
mod max_hold;
mod on_terminal;
mod once_per;
mod owner;
mod pages;
#[cfg(feature = "remote")]
mod remote;
mod sandbox;
mod serve;
mod signals;
mod snapshot;
mod status;
mod terminal;
mod tether;
mod verify;
mod waiting;
mod watch;

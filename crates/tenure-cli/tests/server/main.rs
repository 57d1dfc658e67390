//! `tenure serve` as a process: killed and started again, left by its clients, signalled, and
//! watched for what it says.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod crash;
// With programs that `cargo xtask install` installs.
#[cfg(feature = "servers")]
mod document;
mod gone;
mod process;
#[cfg(feature = "remote")]
mod remote_secrets;
mod secrets;
mod signals;
mod traces;

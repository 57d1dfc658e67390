//! The commands: one file each, with its part of the command line and what it does.

pub(crate) mod bench;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod verify;

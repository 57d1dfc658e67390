//! The commands: one file each, with its part of the command line and what it does.

pub(crate) mod acquire;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod elect;
pub(crate) mod force_release;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod verify;
pub(crate) mod watch;

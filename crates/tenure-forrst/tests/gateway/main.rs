//! The gateway in front of a server that is written in another language.

#![cfg(feature = "gateway")]
#![allow(clippy::unwrap_used, missing_docs)]

mod calls;
mod cancelled;
mod documents;
mod left_behind;
mod lost;
mod stage;

//! The protocol as a caller meets it: documents in, documents out.

#![allow(clippy::unwrap_used, missing_docs)]

mod envelope;
mod errors;
mod examples;
mod extensions;
mod garbage;
mod late;
mod limits;
mod locks;
mod round_trips;
mod stage;
mod system;

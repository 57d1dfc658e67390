//! A server while it runs: read anew, called from a browser, by the slow and by the many, and
//! brought to its end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod bodies;
mod browsers;
mod counted;
mod reload;
mod shutdown;
mod stage;
mod written_down;

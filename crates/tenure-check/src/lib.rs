//! Histories of locks, and the checkers that find in them what a lock must never do.
//!
//! Workers write what they asked and what they were answered, line by line, each into a file of its
//! own; whoever kills and pauses them writes that down too. [`check`] reads it all afterwards.
//!
//! | part | what it is for |
//! |---|---|
//! | [`record`] | one line of a history, how it is written, and how a torn one is read |
//! | [`history`] | the lines of all workers, put together into claims |
//! | [`fences`] | fences grow in the order of real time, and none comes twice |
//! | [`beliefs`] | no two believe in the same key at once |
//! | [`sink`] | a resource that checks the fence, and that it let nothing stale through |
//! | [`linear`] | every answer fits one order of events on a fenced mutex |
//! | [`waiters`] | nobody waits too long, no orphan outlives its ttl, every claim is answered |
//! | [`stay`] | how long a lease may stay when nobody gives it back |
//! | [`verdict`] | all of them, and what they found |
//!
//! Times are nanoseconds on the boot clock, which all processes of one machine share: a history
//! comes from one machine, whatever store it is about.

pub mod beliefs;
pub mod fences;
#[cfg(test)]
mod grown;
pub mod history;
pub mod linear;
pub mod record;
#[cfg(test)]
mod sample;
pub mod sink;
pub mod stay;
pub mod verdict;
pub mod waiters;

pub use history::History;
pub use record::{Record, Recorder, What};
pub use verdict::{Checker, Losses, Options, Verdict, Violation, check};

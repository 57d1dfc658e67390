//! `file:PATH`: locks in one file, shared by every process of a machine.
//!
//! The rule applied to rows of a SQLite database in WAL mode. One call goes this way:
//!
//! ```text
//! FileStore ─ job ─▶ writer thread ─ batch ─▶ BEGIN · rule on rows · COMMIT ─▶ sync ─▶ answers
//!  store.rs  job.rs    writer.rs     batch.rs         rows.rs                  sync.rs
//!                                    verbs.rs
//! ```
//!
//! `schema.rs` opens the connection and `boot.rs` puts deadlines right after a reboot; `place.rs`
//! knows the path and sees when the file was replaced; `bell.rs` wakes the other processes;
//! `patience.rs` waits for their locks; `schedule.rs` lets jobs gather before the writer begins;
//! `error.rs` says what SQLite's errors mean.
//!
//! # What is not promised
//! The file belongs on a local disk of one machine: network file systems are refused, and a disk
//! that two machines mount at once is found only when the second one opens the file.

#[cfg(target_os = "linux")]
mod batch;
#[cfg(target_os = "linux")]
mod bell;
#[cfg(target_os = "linux")]
mod boot;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod error;
#[cfg(all(target_os = "linux", feature = "fuzzing"))]
pub(crate) mod fuzzing;
#[cfg(target_os = "linux")]
mod job;
#[cfg(target_os = "linux")]
mod patience;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(target_os = "linux")]
mod schedule;
#[cfg(target_os = "linux")]
mod schema;
#[cfg(target_os = "linux")]
mod store;
#[cfg(target_os = "linux")]
mod sync;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
#[cfg(target_os = "linux")]
mod verbs;
#[cfg(target_os = "linux")]
mod writer;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::FileStore;
#[cfg(target_os = "linux")]
pub use store::FileStore;

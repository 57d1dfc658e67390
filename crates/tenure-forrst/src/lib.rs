//! Forrst: remote calls that run under an atomic lock.
//!
//! A caller names a lock with its call; the function runs only while the lock is held, and the lock
//! is given back whatever becomes of the function. This crate speaks the protocol
//! (`urn:forrst:ext:atomicLock` and the extensions that touch it), on any of tenure's stores, in
//! anybody's axum application:
//!
//! ```no_run
//! use serde::Deserialize;
//! use serde_json::json;
//! use tenure_forrst::{Call, Fault, Forrst};
//!
//! #[derive(Deserialize)]
//! struct Charge {
//!     user_id: String,
//!     amount: u64,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let locks = tenure::Locks::open("memory:").await?;
//!     let forrst = Forrst::new(locks)
//!         .function("payments.charge", "1.0.0", async |call: Call, charge: Charge| {
//!             if charge.amount == 0 {
//!                 return Err(Fault::custom("NOTHING_TO_CHARGE", "amount must not be zero"));
//!             }
//!             // Pass the fence on with every write: it tells a late writer apart.
//!             let fence = call.fence().map(|fence| fence.get());
//!             Ok(json!({"charged": charge.user_id, "fence": fence}))
//!         })
//!         .service();
//!     let app = axum::Router::new().route_service("/forrst", forrst);
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//!     Ok(axum::serve(listener, app).await?)
//! }
//! ```
//!
//! # What holds
//! - The lock is taken only after the function is known and its arguments are good, and is kept
//!   alive while the function runs, also past its ttl.
//! - When the lock cannot be kept alive, the function is stopped, and its caller told `LOCK_LOST`,
//!   before anyone else can be granted the lock; with two exceptions. A lock that is taken away by
//!   force, or released by whoever has its owner, can be another's at once: the function is stopped
//!   with the next renewal, a third of the ttl later at the most unless that is set otherwise. And
//!   behind a gateway only the connection is cut: the other server may go on. A resource that
//!   checks the fence is safe from both.
//! - With `auto_release` the lock is given back before the answer is sent: after success, an error
//!   and a panic; after a deadline and a cancellation also one that was asked to stay. When the
//!   caller goes away, the function is dropped and the lock given back in the background.
//! - Cancellation and idempotency are known to one process: another server on the same store shares
//!   the locks, and nothing else.
//!
//! # Layout
//! | | |
//! |---|---|
//! | [`Forrst`], [`Function`], [`Call`], [`Fault`] | writing a service |
//! | [`ForrstService`] | the protocol over HTTP, as a tower service |
//! | [`LockDesk`] | where locks come from, and who may do what |
//! | `Gateway` (feature `gateway`) | locks around another server's functions |

mod amount;
mod body;
mod call;
mod desk;
mod engine;
mod extension;
mod fault;
mod forrst;
mod function;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "gateway")]
mod gateway;
mod locked;
mod object;
mod pointer;
mod protocol;
mod registry;
mod released;
mod request;
mod response;
mod service;
mod stop;
mod system;

pub use call::Call;
pub use desk::{Lent, LockDesk, Refusal, Seen, Stays, Wanted};
pub use extension::Unknown;
pub use fault::Fault;
pub use forrst::{Forrst, PREFIX};
pub use function::Function;
#[cfg(feature = "gateway")]
pub use gateway::{Gateway, GatewayError};
pub use service::ForrstService;
pub use tenure_api::ForrstCode;

//! tenure's server and sidecar: locks over HTTP, gRPC and Dapr's API, on any store.
//!
//! ```text
//! accept ─▶ door ──────▶ decode ──────────▶ authorise · limit ─▶ call ──▶ encode
//!           who calls    http/ grpc/ dapr/  api/                 Locks    failure.rs
//!                        forrst.rs
//! ```
//!
//! Every surface turns its request into a call of [`Api`], which is where rights and limits are
//! checked: no surface can forget to.

mod accept;
mod access;
pub mod api;
mod app_health;
mod audit;
pub mod config;
mod dapr;
mod door;
mod failure;
mod follower;
mod forrst;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
mod host;
mod http;
mod idle;
mod ledger;
mod meter;
mod metrics;
mod prepare;
mod quota;
mod rooms;
mod run;
mod server;
mod tls;
mod trace;
mod whole;

pub use accept::Connections;
pub use access::{Caller, Grants, Identity, Verb};
pub use api::Api;
pub use dapr::KeyPrefix;
pub use door::{Door, Guests, Token};
pub use failure::Failure;
pub use rooms::{NamedStore, Rooms};
pub use run::Running;
#[cfg(feature = "otel")]
pub use trace::export::{Exporter, export};

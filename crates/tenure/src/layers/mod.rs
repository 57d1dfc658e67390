//! What stands between [`Locks`](crate::Locks) and a store: each layer is a store around a store.

mod fallback;
mod keys;
mod timeout;

pub use fallback::FallbackLayer;
pub use keys::KeyLayer;
pub use timeout::TimeoutLayer;

//! The stores, one folder or file each, and the one place that turns a URL into one.

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::{Error, Operation, Result};
use crate::store::Store;

#[cfg(feature = "file")]
pub mod file;
pub mod memory;

/// The schemes that this build can open. The conformance suite runs every one of them.
pub const SCHEMES: &[&str] = &[
    "memory",
    #[cfg(feature = "file")]
    "file",
];

/// Opens the store that a URL names: `memory:` or `file:PATH`.
///
/// # Errors
/// `Invalid` when the URL is none; `Unsupported` when its scheme is not in this build; otherwise
/// what the store itself says. No error repeats the URL, which may carry a password.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(Error::invalid("store must be a URL such as file:/var/lib/app/locks.db")
            .during(Operation::Open));
    };
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(memory::MemoryStore::new(clock))),
        "memory" => Err(Error::invalid("memory: takes no path").during(Operation::Open)),
        #[cfg(feature = "file")]
        "file" => Ok(Arc::new(file::FileStore::open(rest).await?)),
        _ => Err(Error::new(
            crate::ErrorKind::Unsupported,
            format!("store scheme is none of those in this build: {}", SCHEMES.join(", ")),
        )
        .during(Operation::Open)),
    }
}

//! Locks on redis.
//!
//! ```text
//! ACL SETUSER tenure on >password ~t1/* ~t1h/* ~tenure:* resetchannels &tenure:free:* +role +info +config|get +select +ping +scan +evalsha +eval +time +get +set +del +pttl +pexpire +getset +publish +subscribe +unsubscribe
//! ```

mod bell;
mod dial;
mod error;
mod line;
mod nodes;
mod options;
mod probe;
mod reply;
mod script;
mod slot;
mod store;

use std::sync::Arc;

pub use options::RedisOptions;
pub use store::RedisStore;

use crate::clock::Clock;
use crate::error::Result;
use crate::store::Store;

/// What URLs of this store begin with.
pub const SCHEMES: &[&str] =
    &["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// Opens the store that `url` names.
///
/// # Errors
/// `Invalid` when it is no such URL; `Denied`, `Unavailable` or `Unsupported` when Redis cannot be
/// used, with what to do about it. No error repeats the URL.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(RedisOptions::new(url)?.open(clock).await?))
}

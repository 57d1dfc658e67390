//! `redis:`: locks on Redis or Valkey: one server, behind Sentinels, or a Cluster.
//!
//! Every operation is one script, decided on the server with the server's clock, in one round trip.
//! Waiters are woken by a message.
//!
//! # What it guarantees
//! Class F (fenced-correct) on one server without replicas that has `appendonly yes`, `appendfsync
//! always`, `no-appendfsync-on-rewrite no` (the default), and either no `maxmemory` or
//! `maxmemory-policy noeviction`. It is class E (efficiency only), with the reason and the remedy
//! among its findings, when
//! - there are replicas, Sentinels or a Cluster: replication is asynchronous, so a replica that
//!   takes over may not know the last grants;
//! - the append-only file is off, or synced later than before the answer, be it only while it is
//!   rewritten (`no-appendfsync-on-rewrite yes`): a crash may lose grants;
//! - the memory is limited and keys may be evicted: a lock may be one of them;
//! - `CONFIG GET` is not allowed: the worst is assumed.
//!
//! A fence is the greater of the last one plus one and the server's time in microseconds. So it
//! grows even where the counter was lost (`FLUSHALL`, a crash, a fail-over), as long as the clock
//! went on since the last grant, and that of a replica that takes over is not behind; where the
//! counter is kept, it grows whatever the clock does.
//!
//! Redis ends keys by its wall clock. If that is set forward, leases end early: let the server's
//! clock be slewed, not stepped. Slewing is harmless as long as it and a client's clock do not
//! drift apart by more than 1 %: let chrony have `maxslewrate 5000` (half a percent) on all of
//! these machines, its default is sixteen times that.
//!
//! A client that reads an answer late does not send a script again: after a broken connection the
//! outcome of a write is `Unknown`. The one exception is an answer that says that nothing was done
//! (the script is not known there, the key is another node's, the node is read-only).
//!
//! # Required
//! Redis 6.0 or newer (its protocol version 3 tells when a connection breaks), or Valkey. Scripts
//! and messages must be allowed. Tested with Redis 7.0. When a store is opened, it takes and
//! gives back a lock of its own on every node, so that whatever is missing is found there.
//!
//! # URL
//! ```text
//! redis://[user:password@]host[:6379][/database]
//! redis+sentinel://[user:password@]host[:26379],…[/database]?service=mymaster
//! redis+cluster://[user:password@]host[:6379],…
//! rediss://…   rediss+sentinel://…   rediss+cluster://…      with TLS
//! ```
//! Special characters in user and password are written as `%XX`. What the URL does not give is
//! taken from `REDIS_USERNAME` and `REDISCLI_AUTH`. Of a Cluster, some nodes are enough.
//!
//! | option | default | meaning |
//! |---|---|---|
//! | `ca` | the system's | PEM file with the authorities to trust (TLS) |
//! | `cert`, `key` | none | PEM files of a client certificate and its key (TLS) |
//! | `service` | none | the name that the Sentinels know the primary by; needed with them |
//! | `sentinel_username`, `sentinel_password` | none | for the Sentinels themselves |
//!
//! [`RedisOptions`] sets the same in code.
//!
//! # Permissions
//! Not more than this, on every node:
//! ```sh
//! redis-cli ACL SETUSER tenure on '>password' resetchannels '&tenure:free:*' \
//!     '~t1/*' '~t1h/*' '~tenure:*' +role +info '+config|get' +select +ping +scan \
//!     +evalsha +eval +time +get +getset +set +del +pttl +pexpire \
//!     +publish +subscribe +unsubscribe
//! ```
//! In a Cluster also `+cluster|slots +asking`. With [`KeyPolicy::raw`](crate::KeyPolicy::raw), the
//! keys to lock in place of `~t1/*` and `~t1h/*`. Before 6.2 there are no channels to allow: leave
//! out `resetchannels` and `&tenure:free:*`. Without `+config|get` it works, as class E. A user of
//! Sentinels needs `+sentinel|get-master-addr-by-name` there.
//!
//! # What stands in Redis
//! - The key itself, such as `t1/namespace/key`: a string, the owner, as by `SET key owner NX PX`.
//! - `tenure:lease:{n}:key`: a string of five lines that ends with the lock: owner, fence, ttl in
//!   milliseconds, time of the grant in microseconds, holder.
//! - `tenure:fence:{n}`: the last fence of a hash slot, without end. There are 16384 of them at the
//!   most, however many keys there are.
//! - `tenure:fingerprint:namespace`: how the namespace writes its keys.
//! - `tenure:free:database:key` is no key, but the channel on which a release is told.
//!
//! `n` is a number whose hash slot is that of the key, so that one script may touch them all in a
//! Cluster too. While a slot is being moved to another node, a key of it may be half here and half
//! there: then it is `Unavailable`, to a new grant also when only the counter is elsewhere.
//!
//! # With other clients
//! The lock is the usual one of Redis. So with [`KeyPolicy::raw`](crate::KeyPolicy::raw), tenure
//! and programs that follow the plain convention (redsync, a redlock on one node, Laravel, Dapr)
//! exclude each other on the same key, and each gives back only its own. A lock of theirs has fence
//! 0 and the holder `a client of the plain convention`; without a ttl it is held until it is
//! deleted. They do not tell when they release: whoever waits finds out at its next look. Only
//! tenure's own leases are listed, and a listing goes through all keys of the database (`SCAN`). A
//! key that holds something else than a string is neither taken nor removed: that is `Damaged`.
//! Keys that begin with `tenure:` cannot be locked.

mod bell;
mod dial;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
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

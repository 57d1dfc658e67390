//! `nats://`: locks in a JetStream key-value bucket.
//!
//! # What it promises
//! A grant, a renewal and a release are one message each, published with the sequence that it is
//! to replace; the stream refuses it if that is not the key's last one. The fence is the sequence
//! of the grant's message. Sequences are numbered through the whole bucket and never go back, so
//! nothing has to stay behind when a key is released.
//!
//! The class is [`Fenced`](crate::store::Class::Fenced) when the bucket is on disk and the servers
//! sync each write before they acknowledge it. They do not by default, and no client can see it:
//! set `jetstream { sync_interval: always }` on the servers, which are 2.10 or later, and say so
//! with `sync=always`. Otherwise, and for a bucket in memory or one that may evict, the class is
//! [`Efficiency`](crate::store::Class::Efficiency): a power cut may lose grants and fences that
//! were acknowledged.
//!
//! The crash of a server process alone loses no grant and no fence that is on disk. But NATS may
//! bring back a message that was written over, when the one that was written over it is gone: where
//! observers time leases, a key that was released may then be held once more, by nobody, for one
//! ttl.
//!
//! # A bucket that is made again
//! It may be deleted, or be lost with the memory of its servers. When tenure makes it again, on a
//! server of 2.10 or later, its sequences begin above all that came before: with the microseconds
//! since 1970. With older servers, or when another makes it, they begin with one, and fences with
//! them: a resource that remembers fences must forget them then. Either way, whoever held a lock in
//! the old bucket is told that it is lost, because each store that has been disconnected compares
//! the time at which the bucket was made. That does not show
//! - a bucket that is deleted and made again, by another than tenure or on an old server, while a
//!   process uses it and stays connected: end the processes first;
//! - a bucket in memory with one replica on a server of a cluster: when that server restarts, the
//!   cluster makes the bucket again by itself, and says that it is the old one.
//!
//! # Whose clock
//! From NATS 2.11.10 and 2.12.1 on, on a bucket with `allow_msg_ttl` (tenure makes it so), each
//! lease carries its ttl, in whole seconds rounded up, and the server ends it: by its own wall
//! clock, so servers need clocks that are kept in step. Older servers accept the order and ignore
//! it. There, and on a bucket without `allow_msg_ttl`, leases are timed by the observers: whoever
//! has seen a lease unchanged for its full ttl may take over. All users of one bucket must see it
//! the same way: change `allow_msg_ttl` only while nobody uses it. A lease that was taken without
//! a ttl is one that the server does not end; [`force_release`](crate::Locks::force_release) does.
//!
//! # Set-up
//! NATS 2.9 or later with JetStream (`nats-server -js`). The bucket is made at the first use,
//! unless `create=false`. An existing one is never changed: it must have history 1 and no TTL, and
//! be what the URL asks for; if not, opening fails and says both values.
//!
//! # The URL
//! `nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,HOST[:PORT]…][?OPTION=VALUE&…]`, or `nats+tls://…`
//!
//! | option | default | |
//! |---|---|---|
//! | `bucket` | `tenure` | its name |
//! | `create` | `true` | make it if it is not there |
//! | `replicas` | 1 | of a new bucket; if given, an existing one must have as many |
//! | `storage` | `file` | or `memory`; if given, an existing bucket must have it |
//! | `description` | | of a new bucket |
//! | `timing` | what the server can | `store` or `observer`: refuse a bucket that is not timed so |
//! | `sync` | `interval` | `always` asserts `sync_interval: always` on the servers |
//! | `credentials` | | a `.creds` file |
//! | `nkey` | | a file with a user's seed |
//! | `ca`, `cert`, `key` | the system's authorities | PEM files; any of them means TLS |
//! | `domain` | | the JetStream domain of the bucket |
//! | `inbox` | `_INBOX` | what subjects of replies begin with |
//!
//! Where the URL says nothing of how to log in, `NATS_CREDS`, `NATS_USER` with `NATS_PASSWORD`, or
//! `NATS_TOKEN` do. [`NatsOptions`] sets the same in code.
//!
//! # Permissions
//! All that a user needs, for the bucket `tenure`:
//!
//! ```text
//! permissions: {
//!   publish: { allow: [
//!     "$KV.tenure.>"
//!     "$JS.API.STREAM.INFO.KV_tenure"
//!     "$JS.API.STREAM.CREATE.KV_tenure"       # not with create=false
//!     "$JS.API.STREAM.MSG.GET.KV_tenure"
//!     "$JS.API.STREAM.PURGE.KV_tenure"        # only where observers time leases
//!     "$JS.API.CONSUMER.CREATE.KV_tenure.>"   # to be woken; without it, waiters poll
//!     "$JS.API.CONSUMER.DELETE.KV_tenure.*"
//!   ] }
//!   subscribe: { allow: ["_INBOX.>"] }
//! }
//! ```
//!
//! Whoever may read the bucket can read owners, and so release locks: keep it to the users of the
//! locks. The client library logs raw traffic at its trace level; leave `async_nats=trace` off.
//!
//! # What a key looks like
//! The key `t1/default/order:42` is the key `t1/default/order=3A42` of the bucket, and the subject
//! `$KV.tenure.t1/default/order=3A42`: what a bucket allows stays as it is, every other byte is `=`
//! and two hexadecimal digits. Its value is JSON that a person can read. A release leaves a purge
//! mark. The server ends it after 10 s, or after the ttl of the lease if that is longer. Where
//! observers time leases, the process that made it does so after 10 s, or one that opens the bucket
//! later; the last message of the bucket stays, and so do all marks without the permission.
//!
//! # Waiting
//! For each key that someone waits for, the process has one ephemeral consumer, which wakes it as
//! soon as a release is stored or the server ends the lease. It is kept a little, for the next one
//! to wait; the server forgets it 30 s after the process is gone.

mod bells;
mod bucket;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod link;
mod login;
mod making;
mod marks;
mod options;
mod register;
mod subject;
mod url;

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::Result;
use crate::store::Store;

pub use options::{NatsOptions, Storage};

/// What URLs of this store begin with.
pub const SCHEMES: &[&str] = &["nats", "nats+tls"];

/// Opens the store that `url` names.
///
/// # Errors
/// As [`NatsOptions::open`]. None repeats the URL.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    NatsOptions::new(url)?.open(clock).await
}

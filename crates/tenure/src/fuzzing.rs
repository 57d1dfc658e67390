//! Decoders that callers never see, for the targets in `fuzz/`. No part of the API: it changes
//! whenever they do.
//!
//! | | what it reads | target |
//! |---|---|---|
//! | [`stored_key`] | keys of callers as keys of stores | `key` |
//! | `read_cell` | bodies of entries in registers, and in etcd | `cell` |
//! | `FileRows` | rows of the file store | `file_row` |
//! | `redis_value`, `redis_reply`, `redis_info` | answers of Redis | `redis_reply` |
//! | `redis_slots`, `redis_redirection` | where a Redis Cluster sends its callers | `redis_reply` |
//! | `etcd_answer`, `etcd_version` | etcd's answers | `etcd_answer` |
//! | `EtcdReader`, `etcd_granted`, `etcd_counts` | and what follows for a lease | `etcd_answer` |
//! | `EtcdWaiters` | and for whoever waits | `etcd_answer` |
//! | `nats_entry`, `nats_ack`, `nats_expires` | NATS's answers | `nats_answer` |
//! | `nats_bucket` | what it tells of a bucket | `nats_answer` |
//! | `postgres_row` | rows of PostgreSQL | `postgres_row` |
//! | `remote_status`, `remote_info` | answers of a tenure server | `remote_answer` |
//! | `remote_exchange` | answers on its streams of calls | `remote_answer` |
//! | `remote_refusal` | what it refuses with | `remote_answer` |
//! | `object_refusal` | refusals of object storage | `cell` |
//! | `nats_key`, `object_key`, `redis_key` | keys as each store spells them | `spelling` |
//!
//! URLs are read by the stores' own options, which are public: that is the target `url`. `file:`
//! has none: its path is taken as it stands. The journal of `file:` is SQLite's own: what stands in
//! it is read as rows. That of `tenure verify` is the target `history`.

use crate::key::{Key, Namespace};
use crate::key_policy::KeyPolicy;

#[cfg(feature = "_json")]
pub use crate::stores::cell::fuzzing::{ReadCell, read_cell, write_cell};
#[cfg(feature = "etcd")]
pub use crate::stores::etcd::fuzzing::{
    EtcdReader, EtcdStanding, EtcdWaiters, etcd_answer, etcd_counts, etcd_granted, etcd_version,
};
#[cfg(all(target_os = "linux", feature = "file"))]
pub use crate::stores::file::fuzzing::{FileRows, SqlValue};
#[cfg(feature = "nats")]
pub use crate::stores::nats::fuzzing::{
    nats_ack, nats_bucket, nats_entry, nats_expires, nats_key, nats_subject,
};
#[cfg(feature = "object")]
pub use crate::stores::object::fuzzing::{object_key, object_name, object_refusal};
#[cfg(feature = "postgres")]
pub use crate::stores::postgres::fuzzing::{
    PostgresRow, postgres_literal, postgres_name, postgres_row,
};
#[cfg(feature = "redis")]
pub use crate::stores::redis::fuzzing::{
    RedisNames, RedisValue, redis_info, redis_key, redis_names, redis_redirection, redis_reply,
    redis_slots, redis_value,
};
#[cfg(feature = "remote")]
pub use crate::stores::remote::fuzzing::{
    remote_exchange, remote_info, remote_refusal, remote_status,
};

/// The key as the store keeps it.
#[must_use]
pub fn stored_key(policy: &KeyPolicy, namespace: &Namespace, key: &Key) -> Key {
    policy.store_key(namespace, key)
}

/// What stands in front of every key of the namespace.
#[must_use]
pub fn stored_prefix(policy: &KeyPolicy, namespace: &Namespace) -> String {
    policy.store_prefix(namespace)
}

/// The key as errors and events show it.
#[must_use]
pub fn key_label(policy: &KeyPolicy, namespace: &Namespace, key: &Key) -> Key {
    policy.label(namespace, key)
}

//! The usual lock on Redis: `SET NX PX`, and a script that deletes what is one's own.

use anyhow::{Result, ensure};
use redis::Script;
use redis::aio::MultiplexedConnection;
use tenure::Owner;
use tenure::random::SystemRandom;
use tenure_testkit::servers::Server;
use tenure_testkit::servers::redis::start_redis;

const TTL_MS: u64 = 30_000;

const DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// A Redis that keeps a log, and syncs it as `appendfsync` says.
pub(crate) fn start(appendfsync: &str) -> Result<Server> {
    start_redis(&["--appendonly", "yes", "--appendfsync", appendfsync])
}

/// A connection that any number of callers can share: what they ask at once goes out together.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection> {
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection().await?)
}

/// One who wants a key.
pub(crate) struct RedisLock {
    connection: MultiplexedConnection,
    key: String,
    owner: String,
    delete: Script,
}

impl RedisLock {
    pub(crate) fn new(connection: MultiplexedConnection, key: String) -> Result<Self> {
        let owner = Owner::generate(&SystemRandom)?.expose();
        Ok(Self { connection, key, owner, delete: Script::new(DELETE) })
    }

    /// Whether the key was free, and now is one's own.
    pub(crate) async fn try_lock(&mut self) -> Result<bool> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&self.owner).arg("NX").arg("PX").arg(TTL_MS);
        let answer: Option<String> = set.query_async(&mut self.connection).await?;
        Ok(answer.is_some())
    }

    pub(crate) async fn unlock(&mut self) -> Result<()> {
        let mut delete = self.delete.key(&self.key);
        let gone: i64 = delete.arg(&self.owner).invoke_async(&mut self.connection).await?;
        ensure!(gone == 1, "not held");
        Ok(())
    }
}

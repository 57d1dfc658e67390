//! The usual lock on Redis: `SET NX PX`, and a script that deletes what is one's own.

use std::path::Path;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use redis::Script;
use redis::aio::MultiplexedConnection;
use tenure_testkit::servers::Server;
use tenure_testkit::servers::redis::start_redis;

use super::caller::{Caller, Crowd};

const DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// A Redis that keeps its log in this folder, and syncs it as `appendfsync` says.
pub(super) fn start(folder: &Path, appendfsync: &str) -> Result<Server> {
    let files = folder.join(format!("redis-{appendfsync}"));
    std::fs::create_dir(&files)?;
    let files = files.display().to_string();
    start_redis(&["--appendonly", "yes", "--appendfsync", appendfsync, "--dir", &files])
}

/// A connection for each caller.
pub(super) async fn callers(server: &Server, count: usize) -> Result<Crowd> {
    let client = redis::Client::open(format!("redis://{}/", server.address()))?;
    let mut crowd = Crowd::default();
    for at in 0..count {
        let connection = client.get_multiplexed_async_connection().await?;
        crowd.push(RedisLock { connection, key: format!("raw{at}"), delete: Script::new(DELETE) });
    }
    Ok(crowd)
}

struct RedisLock {
    connection: MultiplexedConnection,
    key: String,
    delete: Script,
}

#[async_trait]
impl Caller for RedisLock {
    async fn cycle(&mut self) -> Result<()> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg("owner").arg("NX").arg("PX").arg(30_000);
        let answer: Option<String> = set.query_async(&mut self.connection).await?;
        ensure!(answer.is_some(), "held");
        let mut delete = self.delete.key(&self.key);
        let gone: i64 = delete.arg("owner").invoke_async(&mut self.connection).await?;
        ensure!(gone == 1, "not held");
        Ok(())
    }
}

//! Those who want the key, by the lock that they use.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use tenure::random::{Random, SystemRandom};
use tenure::{Guard, Locks};

use crate::etcd_call;
use crate::rivals::etcd_lock::EtcdLock;
use crate::rivals::redis_lock::{self, RedisLock};
use crate::sample::pause;

const KEY: &str = "hand-off";

/// What node-redlock waits between two tries if it is not told otherwise: its `retryDelay`, and its
/// `retryJitter` more or less. It gives up after ten of them; here nobody does.
const RETRY_DELAY_MS: f64 = 200.0;
const RETRY_JITTER_MS: f64 = 100.0;

/// A lock that can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// tenure's, on any store.
    Tenure,
    /// etcd's own, which lets a call wait.
    Etcd,
    /// That of the usual libraries for Redis, which try again after a while.
    Polled,
}

impl Lock {
    const ALL: [Self; 3] = [Self::Tenure, Self::Etcd, Self::Polled];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tenure => "tenure",
            Self::Etcd => "etcd's own lock",
            Self::Polled => "Redis, polled",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lock| lock.name() == name)
    }

    /// So many who share one connection, as the tasks of a program do.
    pub(super) async fn parties(self, at: &str, count: usize) -> Result<Vec<Box<dyn Party>>> {
        let mut parties: Vec<Box<dyn Party>> = Vec::new();
        match self {
            Self::Tenure => {
                let locks = Locks::open(at).await?;
                let party = || Tenure { locks: locks.clone(), guard: None };
                parties.extend((0..count).map(|_| Box::new(party()) as Box<dyn Party>));
            }
            Self::Etcd => {
                let channel = etcd_call::connect(at).await?;
                for _ in 0..count {
                    let lock = EtcdLock::new(channel.clone(), KEY.to_owned()).await?;
                    parties.push(Box::new(OnEtcd { lock, key: None }));
                }
            }
            Self::Polled => {
                let connection = redis_lock::connect(at).await?;
                for _ in 0..count {
                    let lock = RedisLock::new(connection.clone(), KEY.to_owned())?;
                    parties.push(Box::new(Polling(lock)));
                }
            }
        }
        Ok(parties)
    }
}

/// One who has the key again and again.
#[async_trait]
pub(super) trait Party: Send {
    /// Waits until it has it.
    async fn take(&mut self) -> Result<()>;
    async fn give(&mut self) -> Result<()>;
}

struct Tenure {
    locks: Locks,
    guard: Option<Guard>,
}

#[async_trait]
impl Party for Tenure {
    async fn take(&mut self) -> Result<()> {
        self.guard = Some(self.locks.lock(KEY).acquire().await?);
        Ok(())
    }

    async fn give(&mut self) -> Result<()> {
        Ok(self.guard.take().context("not held")?.release().await?)
    }
}

struct OnEtcd {
    lock: EtcdLock,
    key: Option<Vec<u8>>,
}

#[async_trait]
impl Party for OnEtcd {
    async fn take(&mut self) -> Result<()> {
        self.key = Some(self.lock.lock().await?);
        Ok(())
    }

    async fn give(&mut self) -> Result<()> {
        self.lock.unlock(self.key.take().context("not held")?).await
    }
}

struct Polling(RedisLock);

#[async_trait]
impl Party for Polling {
    async fn take(&mut self) -> Result<()> {
        while !self.0.try_lock().await? {
            pause(retry_delay()?).await;
        }
        Ok(())
    }

    async fn give(&mut self) -> Result<()> {
        self.0.unlock().await
    }
}

fn retry_delay() -> Result<Duration> {
    let mut byte = [0];
    ensure!(SystemRandom.fill(&mut byte), "no randomness");
    let share = f64::from(byte[0]) / f64::from(u8::MAX) * 2.0 - 1.0;
    Ok(Duration::from_secs_f64((RETRY_DELAY_MS + share * RETRY_JITTER_MS) / 1e3))
}

//! A bucket as a register: one object per key.

use std::time::Duration;

use async_trait::async_trait;

use super::name;
use super::objects::Objects;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::StoreInfo;
use crate::stores::register::{Entries, Entry, Expiry, Fences, Purpose, Register, Swap, Write};
use crate::watch::{Watch, WatchHub};

/// What all three clouds allow, with the prefix.
pub(super) const NAME_BYTES_MAX: usize = 1024;

/// Renewals come at a third of the ttl, and each is a write.
const WRITES_PER_TTL: u32 = 3;

/// The shortest ttl that can be kept alive at this pace.
pub(super) fn ttl_min(write_interval: Duration) -> Duration {
    (write_interval * WRITES_PER_TTL).max(Duration::from_millis(1))
}

/// One object per key.
#[derive(Debug)]
pub(super) struct BucketRegister {
    pub(super) info: StoreInfo,
    pub(super) objects: Objects,
    /// For those who wait in this very process: object storage itself wakes nobody.
    pub(super) watches: WatchHub,
}

impl BucketRegister {
    fn name(&self, key: &Key) -> Result<String> {
        let name = name::encode(key.as_str());
        let size = self.objects.prefix.len() + name.len();
        if size > NAME_BYTES_MAX {
            return Err(Error::invalid(format!(
                "key must make a name of at most {NAME_BYTES_MAX} bytes, with its prefix and \
                 escapes this one has {size}"
            )));
        }
        Ok(name)
    }
}

#[async_trait]
impl Register for BucketRegister {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn fences(&self) -> Fences {
        Fences::Counted
    }

    fn expiry(&self) -> Expiry {
        Expiry::Observer
    }

    async fn read(&self, key: &Key) -> Result<Option<Entry>> {
        self.objects.get(&self.name(key)?).await
    }

    async fn swap(&self, write: Write<'_>) -> Result<Swap> {
        let name = self.name(write.key)?;
        let swap = self.objects.put(&name, write.body, write.expected).await;
        if matches!(write.purpose, Purpose::Free(_)) && !matches!(swap, Ok(Swap::Conflict)) {
            self.watches.ring(write.key);
        }
        swap
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Entries> {
        let (keys, is_more) = self.objects.keys(prefix, after, limit.max(1)).await?;
        let next = keys.last().filter(|_| is_more).map(|(key, _)| key.clone());
        Ok(Entries { entries: self.objects.get_all(keys).await?, next })
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        Ok(self.watches.watch(key))
    }
}

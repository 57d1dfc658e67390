//! Objects in a bucket: read, conditional write, list.

use std::fmt;
use std::sync::Arc;

use futures_util::StreamExt;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    UpdateVersion,
};

use super::error::{self, Condition};
use super::name;
use super::pace::Pace;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::stores::register::{Entry, Swap, Version};

/// More than any lease takes. What is larger was not written by us and is not read.
const BODY_MAX: u64 = 64 * 1024;

const READS_AT_A_TIME: usize = 16;

/// A client of a cloud's object storage.
pub(super) trait Bucket: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Bucket for T {}

/// What tells one write of an object from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// The `ETag`: S3, Azure.
    ETag,
    /// The generation: Google.
    Generation,
}

/// The objects below one prefix.
pub(super) struct Objects {
    pub(super) bucket: Arc<dyn Bucket>,
    pub(super) tags: Tags,
    /// Empty, or ends with a slash.
    pub(super) prefix: String,
    pub(super) pace: Pace,
}

// A client prints what it was made of, keys and all.
impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Objects {
    fn path(&self, name: &str) -> Result<Path> {
        Path::parse(format!("{}{name}", self.prefix))
            .map_err(|error| Error::invalid("the key makes no name of an object").caused_by(error))
    }

    /// The object, if there is one.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Entry>> {
        let path = self.path(name)?;
        let got = match self.bucket.get_opts(&path, GetOptions::default()).await {
            Ok(got) => got,
            Err(error) => return error::read(&error).map_or(Ok(None), Err),
        };
        if got.meta.size > BODY_MAX {
            let text = format!(
                "the object has {} bytes, and a lock fewer: put a free entry in its place, as \
                 tenure::stores::object says",
                got.meta.size
            );
            return Err(Error::new(ErrorKind::Damaged, text));
        }
        let version = self.version(got.meta.e_tag.clone(), got.meta.version.clone());
        let version = version.map_err(Error::unavailable)?;
        match got.bytes().await {
            Ok(body) => Ok(Some(Entry { version, body: body.into() })),
            Err(error) => Err(error::read(&error)
                .unwrap_or_else(|| Error::unavailable("the object went away while it was read"))),
        }
    }

    /// Writes the object if it is still the expected one.
    pub(super) async fn put(
        &self,
        name: &str,
        body: &[u8],
        expected: Option<&Version>,
    ) -> Result<Swap> {
        let path = self.path(name)?;
        let (mode, condition) = match expected {
            None => (PutMode::Create, Condition::Absent),
            Some(version) => (PutMode::Update(self.update(version)), Condition::Same),
        };
        let attributes = Attributes::from_iter([(Attribute::ContentType, "application/json")]);
        let options = PutOptions { mode, attributes, ..PutOptions::default() };
        self.pace.turn(name).await;
        let swap = match self.bucket.put_opts(&path, body.to_vec().into(), options).await {
            Ok(put) => match self.version(put.e_tag, put.version) {
                Ok(version) => Ok(Swap::Done(version)),
                Err(text) => Err(Error::unknown(text)),
            },
            Err(error) => error::write(&error, condition),
        };
        let is_untouched = match &swap {
            Ok(swap) => *swap == Swap::Conflict,
            Err(error) => error.kind() != ErrorKind::Unknown,
        };
        if !is_untouched {
            self.pace.wrote(name);
        }
        swap
    }

    /// Removes an object of a probe; whatever comes of it.
    pub(super) async fn discard(&self, name: &str) {
        if let Ok(path) = self.path(name) {
            drop(self.bucket.delete(&path).await);
        }
    }

    /// The keys that begin with `start` and come after `after`, in order, with their names: up to
    /// `limit`, and whether there may be more.
    pub(super) async fn keys(
        &self,
        start: &str,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<(Vec<(Key, String)>, bool)> {
        let prefix = format!("{}{}", self.prefix, name::encode(start));
        let after = after.map(|after| name::encode(after.as_str()));
        let mut keys: Vec<(Key, String)> = Vec::new();
        let mut token = None;
        loop {
            let options = PaginatedListOptions {
                offset: after.as_ref().map(|after| format!("{}{after}", self.prefix)),
                max_keys: Some(limit),
                page_token: token,
                ..PaginatedListOptions::default()
            };
            let page = self.bucket.list_paginated(Some(&prefix), options).await;
            let page = page.map_err(|error| {
                error::read(&error).unwrap_or_else(|| Error::unavailable("nothing can be listed"))
            })?;
            for object in page.result.objects {
                let Some(name) = object.location.as_ref().strip_prefix(&self.prefix) else {
                    continue;
                };
                let Some(key) = name::decode(name) else { continue };
                // A store may not know the offset.
                if after.as_deref().is_some_and(|after| name <= after) {
                    continue;
                }
                if keys.last().is_some_and(|(_, last)| last.as_str() >= name) {
                    let text = "the object store does not list names in their order";
                    return Err(Error::new(ErrorKind::Unsupported, text));
                }
                keys.push((key, name.to_owned()));
            }
            token = page.page_token;
            if token.is_none() || keys.len() >= limit {
                let is_more = token.is_some() || keys.len() > limit;
                keys.truncate(limit);
                return Ok((keys, is_more));
            }
        }
    }

    /// Reads several objects at a time, in order; those that went away or are not ours are left
    /// out.
    pub(super) async fn get_all(&self, wanted: Vec<(Key, String)>) -> Result<Vec<(Key, Entry)>> {
        let reads =
            wanted.into_iter().map(|(key, name)| async move { (key, self.get(&name).await) });
        let mut reads = futures_util::stream::iter(reads).buffered(READS_AT_A_TIME);
        let mut entries = Vec::new();
        while let Some((key, read)) = reads.next().await {
            match read {
                Ok(entry) => entries.extend(entry.map(|entry| (key, entry))),
                Err(error) if error.kind() == ErrorKind::Damaged => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    fn version(
        &self,
        e_tag: Option<String>,
        generation: Option<String>,
    ) -> std::result::Result<Version, &'static str> {
        let tag = match self.tags {
            Tags::ETag => e_tag.ok_or("the object store gave its answer no ETag")?,
            Tags::Generation => {
                generation.ok_or("the object store gave its answer no generation")?
            }
        };
        Ok(Version { tag, revision: None })
    }

    fn update(&self, version: &Version) -> UpdateVersion {
        let tag = Some(version.tag.clone());
        match self.tags {
            Tags::ETag => UpdateVersion { e_tag: tag, version: None },
            Tags::Generation => UpdateVersion { e_tag: None, version: tag },
        }
    }
}

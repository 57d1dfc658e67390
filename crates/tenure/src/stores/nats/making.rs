//! Which making of the bucket stands.
//!
//! A bucket that was deleted, or was lost with the memory of its server, and then made again may
//! number its messages from one: a sequence that was read before is now that of another message. So
//! everything that was read is of a making, and means nothing to a later one. A bucket that tenure
//! makes on a server that allows it begins above all that came before, besides.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::error::{refused, silent};
use super::link::Link;
use crate::effect::Effect;
use crate::error::Result;

/// When a bucket was made, as it was told over one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) created: String,
    /// Which connection it was.
    pub(super) connection: u64,
}

/// The makings of a bucket that this store has met, numbered from zero.
#[derive(Debug)]
pub(super) struct Makings {
    link: Arc<Link>,
    stream: String,
    last: Mutex<(u64, Made)>,
}

#[derive(Deserialize)]
struct Stands {
    created: String,
}

impl Makings {
    pub(super) fn new(link: Arc<Link>, stream: &str, first: Made) -> Self {
        Self { link, stream: stream.to_owned(), last: Mutex::new((0, first)) }
    }

    /// The one that stands. It is asked for anew with every connection: a server that has lost a
    /// bucket was away.
    pub(super) async fn now(&self) -> Result<u64> {
        let mut last = self.last.lock().await;
        let (number, made) = &mut *last;
        let connection = self.link.connections();
        if made.connection != connection {
            let verb = format!("STREAM.INFO.{}", self.stream);
            let stands = self.link.api::<Stands>(&verb, &json!({})).await;
            let stands = stands.map_err(|silence| silent(silence, Effect::Read))?;
            let created = stands.map_err(|error| refused(&error))?.created;
            if made.created != created {
                *number += 1;
                tracing::warn!(
                    stream = self.stream,
                    "the bucket was made anew: its locks are lost"
                );
            }
            *made = Made { created, connection };
        }
        Ok(*number)
    }
}

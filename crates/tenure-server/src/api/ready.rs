//! Whether this server can be asked for locks.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use tenure::Key;
use tenure::clock::{Moment, within};
use tenure_api::Code;
use tokio::sync::Mutex;

use super::Api;
use crate::failure::Failure;

/// How long a store may take to show that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// For how long one look at the stores is good. Anyone may ask, and the stores have other work.
const GOOD_FOR: Duration = Duration::from_millis(250);

/// The last look at the stores: when, and what was seen.
pub(super) type Look = Mutex<Option<(Moment, Result<(), Failure>)>>;

impl Api {
    /// Whether every store answers, and the server is not going down.
    ///
    /// # Errors
    /// `ShuttingDown`, or what the first store that does not answer says.
    pub async fn ready(&self) -> Result<(), Failure> {
        let mut last = self.look.lock().await;
        if *self.closing.borrow() {
            return Err(Failure::new(Code::ShuttingDown, "the server is going down"));
        }
        if let Some((at, seen)) = &*last
            && self.clock.now().since(*at) < GOOD_FOR
        {
            return seen.clone();
        }
        let seen = self.look_at_stores().await;
        *last = Some((self.clock.now(), seen.clone()));
        seen
    }

    async fn look_at_stores(&self) -> Result<(), Failure> {
        let probe = Key::new("tenure-readyz")?;
        for (name, named, _) in self.rooms.stores() {
            let look = within(&*self.clock, READY_WITHIN, named.store.inspect(&probe)).await;
            let unready =
                |why: String| Failure::new(Code::Unavailable, format!("store {name:?}: {why}"));
            match look {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(unready(error.to_string())),
                Err(_) => return Err(unready(format!("no answer within {READY_WITHIN:?}"))),
            }
        }
        Ok(())
    }

    /// Whether this server is ready, now and whenever that changes, until it goes down.
    ///
    /// # Errors
    /// `LimitReached`.
    pub(crate) fn readiness(
        self: &Arc<Self>,
        peer: IpAddr,
    ) -> Result<impl Stream<Item = bool> + Send + use<>, Failure> {
        let ticket = self.streams.take(peer.to_string())?;
        let start = (Arc::clone(self), self.closing.subscribe(), None);
        Ok(stream::unfold(start, move |(api, mut closing, told)| {
            let _lives_as_long = &ticket;
            async move {
                loop {
                    let is_over = *closing.borrow_and_update();
                    let is_ready = api.ready().await.is_ok();
                    if told != Some(is_ready) {
                        return Some((is_ready, (api, closing, Some(is_ready))));
                    }
                    if is_over {
                        return None;
                    }
                    let again = api.clock.sleep_until(api.clock.now() + api.terms.ping);
                    tokio::select! { _ = closing.changed() => {}, () = again => {} }
                }
            }
        }))
    }
}

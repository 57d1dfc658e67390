//! The functions of the protocol itself and what they ask a desk for, for the fuzz targets.

use std::future::{pending, ready};
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Extensions, Request, header};
use http_body_util::{BodyExt, Full};
use tenure::Owner;
use tenure::clock::{Clock, Moment, Sleep};
use tower::Service;

use crate::desk::{Lent, LockDesk, Refusal, Seen, Wanted};
use crate::forrst::Forrst;
use crate::service::ForrstService;

/// What a desk was asked for: the verb, the key, and the owner where there was one.
pub type Errand = (&'static str, String, Option<String>);

/// A service with no functions but those of the protocol.
#[derive(Debug)]
pub struct SystemFunctions {
    service: ForrstService,
    desk: Arc<YesDesk>,
}

impl SystemFunctions {
    /// One at whose desk every lock can be given back, and none is held.
    #[must_use]
    pub fn new() -> Self {
        let desk = Arc::new(YesDesk::default());
        let service = Forrst::at(Arc::<YesDesk>::clone(&desk)).clock(Arc::new(StoppedClock));
        Self { service: service.service(), desk }
    }

    /// The answer to a body, and what the desk was asked for; `None` when it did not come at once.
    #[must_use]
    pub fn answer(&self, body: &[u8]) -> Option<(Bytes, Vec<Errand>)> {
        let request = Request::post("/").header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).ok()?;
        let response = self.service.clone().call(request).now_or_never()?.ok()?;
        let document = response.into_body().collect().now_or_never()?.ok()?.to_bytes();
        Some((document, take(&mut *self.desk.errands())))
    }
}

impl Default for SystemFunctions {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes down what it is asked for.
#[derive(Debug, Default)]
struct YesDesk(Mutex<Vec<Errand>>);

impl YesDesk {
    fn note(&self, verb: &'static str, key: &str, owner: Option<&Owner>) {
        self.errands().push((verb, key.to_owned(), owner.map(Owner::expose)));
    }

    fn errands(&self) -> MutexGuard<'_, Vec<Errand>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LockDesk for YesDesk {
    async fn acquire(&self, _: &Extensions, wanted: &Wanted) -> Result<Lent, Refusal> {
        self.note("acquire", &wanted.key, wanted.owner.as_ref());
        Err(Refusal::Held)
    }

    async fn release(&self, _: &Extensions, key: &str, owner: &Owner) -> Result<(), Refusal> {
        self.note("release", key, Some(owner));
        Ok(())
    }

    async fn force_release(&self, _: &Extensions, key: &str) -> Result<bool, Refusal> {
        self.note("force-release", key, None);
        Ok(true)
    }

    async fn status(
        &self,
        _: &Extensions,
        key: &str,
        known: Option<&Owner>,
    ) -> Result<Option<Seen>, Refusal> {
        self.note("status", key, known);
        Ok(None)
    }

    async fn check(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn admit(&self, _: &Extensions) -> Result<(), Refusal> {
        Ok(())
    }

    fn name(&self, _: &Extensions) -> String {
        String::new()
    }
}

/// It always shows the same time: what waits for a later one waits for ever.
#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(0)
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn sleep_until(&self, at: Moment) -> Sleep {
        if at <= self.now() { Box::pin(ready(())) } else { Box::pin(pending()) }
    }
}

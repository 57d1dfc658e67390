//! The connections of a store, and how a statement goes over one of them.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Client, Manager, ManagerConfig, Object, Pool as Connections, PoolConfig, QueueMode,
    RecyclingMethod, Runtime, Timeouts,
};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::Row;
use tokio_postgres::error::Error as Native;
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use super::dial::Dialer;
use super::error::{
    self, harmless, lost_race, not_prepared_here, silent, taints_connection, writing,
};
use super::statements::Statement;
use crate::clock::{Clock, Elapsed, within};
use crate::effect::Effect;
use crate::error::{Error, Result};

/// Within this a statement is sent and answered. Later its caller has long given up, and what is
/// granted then is granted to nobody.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// An answer that takes longer makes the connection suspect: it keeps none of the others from being
/// made anew, and those that nobody has used since then are not used again.
const SUSPECT_AFTER: Duration = Duration::from_secs(2);

/// Within this a connection is free, or one may be made.
const FREE_WITHIN: Duration = Duration::from_secs(5);

/// How often a statement that lost a race is sent before its caller is told.
pub(super) const RACES: usize = 16;

pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

/// A text that no log shows: the client library writes parameters to its own.
pub(super) struct Hidden(pub(super) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl ToSql for Hidden {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <String as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

/// A connection, and its place among all that there may be: none, once it is suspect.
pub(super) struct Lent<'a> {
    client: Client,
    place: Option<SemaphorePermit<'a>>,
}

impl Deref for Lent<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// The connections of a store.
pub(super) struct Pool {
    /// As many again as there are places, for those that are suspect.
    connections: Connections,
    places: Semaphore,
    clock: Arc<dyn Clock>,
    prepare: AtomicBool,
    plainly: AtomicBool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("prepare", &self.prepare).finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(dialer: Dialer, count: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        // A connection that ended is noticed by its task; asking it first would be a round trip.
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let (wait, create) = (Some(FREE_WITHIN), Some(dialer.limit()));
        let settings = dialer.settings().clone();
        let connections = Connections::builder(Manager::from_connect(settings, dialer, manager))
            .config(PoolConfig {
                max_size: count.saturating_mul(2),
                timeouts: Timeouts { wait, create, recycle: None },
                queue_mode: QueueMode::Lifo,
            })
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Error::unavailable("no pool can be made").caused_by(error))?;
        let (prepare, plainly) = (AtomicBool::new(false), AtomicBool::new(true));
        Ok(Self { connections, places: Semaphore::new(count), clock, prepare, plainly })
    }

    /// Whether statements are prepared by name: only where a session stays on its connection.
    /// Elsewhere a name may stand for another process's statement.
    pub(super) fn set_prepare(&self, prepare: bool) {
        self.prepare.store(prepare, Ordering::Relaxed);
    }

    /// Whether a statement by itself runs in the isolation that the store wants: read committed,
    /// where who meets another waits for it and does not fail.
    pub(super) fn set_plainly(&self, plainly: bool) {
        self.plainly.store(plainly, Ordering::Relaxed);
    }

    /// A connection, for what is not one statement.
    pub(super) async fn get(&self) -> Result<Lent<'_>> {
        let place = within(&*self.clock, FREE_WITHIN, self.places.acquire()).await;
        let place = place.ok().and_then(Result::ok).ok_or_else(error::none_free)?;
        let client = self.connections.get().await.map_err(error::no_connection)?;
        Ok(Lent { client, place: Some(place) })
    }

    /// Runs `work` for at most `limit`. A connection that kept silent until then is to be
    /// [given up](Self::give_up).
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        within(&*self.clock, limit, work).await
    }

    /// Ends a connection and makes room for another.
    pub(super) fn give_up(lent: Lent<'_>) {
        drop(Object::take(lent.client));
    }

    /// Waits for an answer, and makes room for another connection when it does not come soon.
    async fn answer<'a, T>(
        &self,
        place: &mut Option<SemaphorePermit<'a>>,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        let mut work = pin!(work);
        let soon = limit.min(SUSPECT_AFTER);
        if let Ok(answer) = self.within(soon, &mut work).await {
            return Ok(answer);
        }
        *place = None;
        drop(self.connections.retain(|_, metrics| metrics.last_used() < SUSPECT_AFTER));
        self.within(limit - soon, work).await
    }

    /// Runs one statement in a transaction of its own and one round trip.
    pub(super) async fn run(
        &self,
        effect: Effect,
        statement: &Statement,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>> {
        let deadline = self.clock.now() + ANSWER_WITHIN;
        let mut races = 0;
        loop {
            let mut lent = self.get().await?;
            let left = deadline.since(self.clock.now());
            if left.is_zero() {
                return Err(error::none_free());
            }
            let Lent { client, place } = &mut lent;
            let answer = self.answer(place, left, self.send(client, statement, values)).await;
            if lent.place.is_none() || matches!(&answer, Ok(Err(error)) if error.taints()) {
                Self::give_up(lent);
            } else {
                drop(lent);
            }
            let error = match answer {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(error)) => error,
                Err(Elapsed) => return Err(silent(effect)),
            };
            match error {
                Failure::Answer(native) | Failure::Preparing(native)
                    if not_prepared_here(&native)
                        && self.prepare.swap(false, Ordering::Relaxed) =>
                {
                    tracing::warn!("a pooler is in between: statements are no longer prepared");
                }
                Failure::Answer(native) if lost_race(&native) && races < RACES => races += 1,
                Failure::Answer(native) if effect == Effect::Write => return Err(writing(native)),
                Failure::Answer(native) | Failure::Preparing(native) => {
                    return Err(harmless(native));
                }
            }
        }
    }

    async fn send(
        &self,
        client: &Client,
        statement: &Statement,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let Statement { sql, types } = statement;
        if self.prepare.load(Ordering::Relaxed) {
            let prepared = client.prepare_typed_cached(sql, types).await;
            let prepared = prepared.map_err(Failure::Preparing)?;
            return self.isolated(client, client.query(&prepared, values)).await;
        }
        let typed: Vec<_> = values.iter().copied().zip(types.iter().cloned()).collect();
        self.isolated(client, client.query_typed(sql, &typed)).await
    }

    /// Puts a transaction around `query` where the default isolation is another. All three are
    /// sent together: it is one round trip all the same.
    async fn isolated(
        &self,
        client: &Client,
        query: impl Future<Output = Result<Vec<Row>, Native>>,
    ) -> Result<Vec<Row>, Failure> {
        if self.plainly.load(Ordering::Relaxed) {
            return query.await.map_err(Failure::Answer);
        }
        let (begun, rows, committed) = tokio::join!(
            biased;
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
            query,
            client.batch_execute("COMMIT"),
        );
        begun.and(rows).and_then(|rows| committed.map(|()| rows)).map_err(Failure::Answer)
    }
}

enum Failure {
    /// Before the statement was executed.
    Preparing(Native),
    Answer(Native),
}

impl Failure {
    /// Whether its connection is of no further use.
    fn taints(&self) -> bool {
        let (Self::Preparing(error) | Self::Answer(error)) = self;
        taints_connection(error)
    }
}

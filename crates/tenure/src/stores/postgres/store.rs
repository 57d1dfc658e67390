//! The store: each verb is one statement.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::AbortHandle;

use super::dial::Dialer;
use super::error;
use super::listener::{Listener, Place};
use super::names::Names;
use super::options::PostgresOptions;
use super::pool::{Hidden, Pool, RACES, Value};
use super::rows::{Answer, broken, millis};
use super::statements::{Statement, Statements, after_prefix};
use super::sweep::{Sweep, keep_sweeping};
use super::{probe, schema};
use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Reentry, Released, Renewal, Renewed,
};
use crate::clock::{Clock, within};
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::store::{Capabilities, Store, StoreInfo, Timing};
use crate::watch::Watch;

/// All of opening but connecting: probing, making tables.
const OPEN_MAX: Duration = Duration::from_secs(10);

/// Locks in a table of PostgreSQL; see the [module](super).
pub struct PostgresStore {
    info: StoreInfo,
    names: Names,
    statements: Statements,
    listener: Option<Listener>,
    sweeper: OnceLock<AbortHandle>,
    pub(super) pool: Pool,
    pub(super) sweep: Sweep,
    pub(super) sweep_after: Duration,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if let Some(sweeper) = self.sweeper.get() {
            sweeper.abort();
        }
    }
}

impl PostgresStore {
    pub(super) async fn open(options: PostgresOptions, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let tls = options.tls.connector()?;
        let dialer = Dialer::new(options.servers.clone(), tls, Arc::clone(&clock));
        let limit = dialer.limit().saturating_add(OPEN_MAX);
        let connect = Box::pin(Self::connect(options, dialer, &clock));
        let store = within(&*clock, limit, connect).await;
        let store = Arc::new(store.map_err(|_| error::away())??);
        let sweeper = tokio::spawn(keep_sweeping(Arc::downgrade(&store), clock));
        // It was never set: the store is new.
        drop(store.sweeper.set(sweeper.abort_handle()));
        Ok(store)
    }

    async fn connect(
        options: PostgresOptions,
        dialer: Dialer,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let pool = Pool::new(dialer.clone(), options.connections, Arc::clone(clock))?;
        let mut findings = probe::server(&pool).await?;
        findings.extend(schema::ensure(&pool, &options.names).await?);
        if options.trusts_the_network() {
            let text = "the server's certificate is not checked: who is in between can be it";
            findings.push(Finding::warning("sslmode", text).remedy("set sslmode=verify-full"));
        }
        let listens_elsewhere = options.listen_servers.is_some();
        let place = Place {
            dialer: match options.listen_servers {
                Some(servers) => dialer.to(servers),
                None => dialer,
            },
            names: options.names.clone(),
            clock: Arc::clone(clock),
        };
        let line = match options.listen {
            true => probe::hearing(&pool, &place, clock).await?,
            false => None,
        };
        // What hears has a session of its own, and so has whoever takes the same way.
        pool.set_prepare(options.prepare.unwrap_or(line.is_some() && !listens_elsewhere));
        if line.is_none() {
            findings.push(deaf(options.listen));
        }
        let capabilities = Capabilities {
            shared: true,
            durable: true,
            wakes: line.is_some(),
            ..Capabilities::default()
        };
        Ok(Self {
            info: StoreInfo::new("postgres", Timing::Store, capabilities, findings),
            statements: Statements::new(&options.names),
            listener: line.map(|line| Listener::start(place, line)),
            sweeper: OnceLock::new(),
            sweep: Sweep::new(&options.names),
            sweep_after: options.sweep_after,
            names: options.names,
            pool,
        })
    }

    /// Clears away the rows of keys whose lease ended longer ago than `grace`; says how many.
    ///
    /// The store does so by itself every minute; fences go on growing all the same.
    ///
    /// # Errors
    /// What the server says. That the table is in use is none: then less is cleared away.
    pub async fn sweep(&self, grace: Duration) -> Result<u64> {
        self.sweep.run(&self.pool, grace).await
    }

    async fn one(&self, statement: &Statement, values: &[Value<'_>]) -> Result<Option<Answer>> {
        Answer::only(self.pool.run(Effect::Write, statement, values).await?)
    }

    /// Changes a grant; when it is not there, says whose the key is. The first three values name
    /// the grant.
    async fn settled(&self, statement: &Statement, values: &[Value<'_>]) -> Result<Option<Answer>> {
        for _ in 0..RACES {
            if let Some(done) = self.one(statement, values).await? {
                return Ok(Some(done));
            }
            let whose = &self.statements.whose;
            let rows = self.pool.run(Effect::Read, whose, &values[..whose.types.len()]).await?;
            match Answer::only(rows)? {
                Some(answer) if answer.mine => {}
                other => return Ok(other),
            }
        }
        Err(contended())
    }
}

fn deaf(asked: bool) -> Finding {
    if !asked {
        return Finding::warning("listen", "listen is false: waiters look from time to time");
    }
    let text = "no notification comes through: a pooler lends each transaction a server; waiters \
                look from time to time, and statements are not prepared";
    let remedy = "name the server itself with the option listen_url, or pool by session";
    Finding::warning("listen", text).remedy(remedy)
}

fn contended() -> Error {
    Error::unavailable(format!("the key changed {RACES} times while it was asked for"))
}

fn fence_of(grant: &Grant) -> Result<Option<i64>> {
    let fence = grant.fence.map(|fence| i64::try_from(fence.get())).transpose();
    fence.map_err(|_| Error::invalid("fence must be at most 2^63 - 1"))
}

#[async_trait]
impl Store for PostgresStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let owner = Hidden(claim.owner.expose());
        let adopt = claim.reentry == Reentry::Adopt;
        let values: [Value<'_>; 5] =
            [&claim.key.as_str(), &owner, &claim.holder.as_str(), &millis(claim.ttl), &adopt];
        for _ in 0..RACES {
            // No row: the key was free to the reader and taken when it came to writing.
            let Some(answer) = self.one(&self.statements.acquire, &values).await? else { continue };
            return Ok(match answer.done {
                true => Attempt::Granted(answer.lease(&claim.key, claim.owner.clone())?),
                false => Attempt::Held(answer.status(&claim.key)?),
            });
        }
        Err(contended())
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let Grant { key, owner, .. } = &renewal.grant;
        let (secret, fence) = (Hidden(owner.expose()), fence_of(&renewal.grant)?);
        let values: [Value<'_>; 4] = [&key.as_str(), &secret, &fence, &millis(renewal.ttl)];
        Ok(match self.settled(&self.statements.renew, &values).await? {
            Some(row) if row.done => Renewed::Renewed(row.lease(key, owner.clone())?),
            other => Renewed::Lost(other.map(|row| row.status(key)).transpose()?),
        })
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        let key = &grant.key;
        let (secret, fence) = (Hidden(grant.owner.expose()), fence_of(grant)?);
        let ((space, group), channel) = (self.names.group(key), self.names.channel(key));
        let values: [Value<'_>; 6] = [&key.as_str(), &secret, &fence, &space, &group, &channel];
        Ok(match self.settled(&self.statements.release, &values).await? {
            Some(row) if row.done => Released::Released(row.status(key)?),
            other => Released::NotHeld(other.map(|row| row.status(key)).transpose()?),
        })
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        let key = &eviction.key;
        let ((space, group), channel) = (self.names.group(key), self.names.channel(key));
        let values: [Value<'_>; 4] = [&key.as_str(), &space, &group, &channel];
        let evicted = self.one(&self.statements.force, &values).await?;
        evicted.map(|row| row.status(key)).transpose()
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        let values: [Value<'_>; 1] = [&key.as_str()];
        let rows = self.pool.run(Effect::Read, &self.statements.inspect, &values).await?;
        let Some(row) = Answer::only(rows)? else { return Ok(None) };
        Ok(Some(row.lease(key, row.owner()?)?))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        let after = query.after.as_ref().map_or("", Key::as_str);
        // One more than asked for tells whether there is another page.
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
        let end = after_prefix(&query.prefix);
        let mut values: Vec<Value<'_>> = vec![&query.prefix, &after, &limit];
        let statement = match &end {
            Some(end) => {
                values.push(end);
                &self.statements.list
            }
            None => &self.statements.list_to_the_end,
        };
        let rows = self.pool.run(Effect::Read, statement, &values).await?;
        let more = rows.len() > query.limit;
        let items = rows.into_iter().take(query.limit).map(|row| {
            let row = Answer::new(row)?;
            row.status(&row.key()?)
        });
        Ok(Page::new(items.collect::<Result<_>>()?, more))
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        match &self.listener {
            Some(listener) => listener.watch(key).await,
            None => Ok(Watch::never()),
        }
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        let name = format!("fingerprint/{}", pledge.namespace);
        let values: [Value<'_>; 2] = [&name, &pledge.fingerprint];
        for _ in 0..RACES {
            let rows = self.pool.run(Effect::Write, &self.statements.agree, &values).await?;
            if let Some(row) = rows.first() {
                return row.try_get("value").map_err(broken);
            }
        }
        Err(contended())
    }
}

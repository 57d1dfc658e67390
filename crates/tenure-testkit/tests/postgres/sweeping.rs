//! Rows are cleared away, and fences grow all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tenure::Store;
use tenure::claim::{Attempt, Claim, Grant, Released};
use tenure::clock::{Clock, SystemClock};
use tenure::stores::postgres::PostgresStore;
use tenure_testkit::servers::postgres::Pooled;
use tenure_testkit::servers::{Service, fresh_room};
use tenure_testkit::wait::until;
use tokio_postgres::NoTls;

use crate::{SOON, claim, cycle, granted, open, room, sweeps, wakes};

/// What came of it so far: enough to judge by, or more is needed.
#[derive(Default)]
struct Tally {
    cycles: AtomicU64,
    swept: AtomicU64,
}

impl Tally {
    fn is_enough(&self, sweep: bool) -> bool {
        let [cycles, swept] = [&self.cycles, &self.swept].map(|n| n.load(Ordering::Relaxed));
        cycles > 20 && (!sweep || swept > 5)
    }
}

/// Many take and free few keys at once, each checking that fences grow; with `sweep`, rows vanish
/// all the time. It takes `time` at the least.
pub(crate) async fn one_shot_keys(
    stores: &[Arc<PostgresStore>],
    time: Duration,
    sweep: bool,
) -> Result<()> {
    let (end, tally) = (SystemClock.now() + time, Arc::new(Tally::default()));
    let goes_on = {
        let tally = Arc::clone(&tally);
        move || {
            let now = SystemClock.now();
            now < end || (now < end + SOON && !tally.is_enough(sweep))
        }
    };
    let seen: Arc<[std::sync::Mutex<u64>; 3]> = Arc::default();
    let mut tasks: Vec<tokio::task::JoinHandle<Result<()>>> = Vec::new();
    for (number, store) in stores.iter().enumerate() {
        let (store, seen, tally) = (Arc::clone(store), Arc::clone(&seen), Arc::clone(&tally));
        let goes_on = goes_on.clone();
        tasks.push(tokio::spawn(async move {
            let mut count = 0;
            while goes_on() {
                let index = (count + number) % seen.len();
                let claim = claim(&format!("t1/once/{index}"), "hammer");
                let before = *seen[index].lock().unwrap();
                let Attempt::Granted(lease) = store.try_acquire(&claim).await? else { continue };
                let fence = lease.fence.get();
                ensure!(fence > before, "fence {fence} after {before}");
                *seen[index].lock().unwrap() = fence;
                let grant = Grant { key: lease.key, owner: lease.owner, fence: Some(lease.fence) };
                let released = store.release(&grant).await?;
                ensure!(matches!(released, Released::Released(_)), "{released:?}");
                count += 1;
                tally.cycles.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }));
    }
    while sweep && goes_on() {
        tally.swept.fetch_add(stores[0].sweep(Duration::ZERO).await?, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await??;
    }
    let Tally { cycles, swept } = &*tally;
    println!("{cycles:?} cycles, {swept:?} rows swept");
    ensure!(tally.is_enough(sweep), "{cycles:?} cycles, {swept:?} rows swept");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_while_rows_are_swept() -> Result<()> {
    let url = room();
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(open(&url).await?);
    }
    one_shot_keys(&stores, Duration::from_secs(3), true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_default_isolation_makes_no_difference() -> Result<()> {
    let pooled = tokio::task::spawn_blocking(|| Pooled::start(&[])).await??;
    let postgres = pooled.postgres();
    for isolation in ["repeatable read", "serializable"] {
        let sql = format!("ALTER ROLE postgres SET default_transaction_isolation = '{isolation}'");
        postgres.sql(&sql)?;
        let room = fresh_room();
        let urls = [postgres.url(room, None), pooled.url(room, None)];
        for url in &urls {
            let mut stores = Vec::new();
            for _ in 0..3 {
                stores.push(open(url).await?);
            }
            let told = stores[0].info().findings.iter().any(|f| f.text.contains(isolation));
            // The pooler keeps connections that it has made before.
            ensure!(told || url == &urls[1], "{:?}", stores[0].info().findings);
            one_shot_keys(&stores, Duration::from_secs(1), true).await?;
            cycle(&*stores[1]).await?;
        }
        wakes(&*open(&urls[0]).await?, &*open(&urls[1]).await?).await?;
    }
    Ok(())
}

/// An acquire that has drawn its fence is stopped before it writes, and the row is swept meanwhile,
/// if the sweep lets itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_waits_for_a_grant_on_its_way() -> Result<()> {
    let url = room();
    let (slow, quick) = (open(&url).await?, open(&url).await?);
    let schema = url.split("schema=").nth(1).and_then(|s| s.split('&').next()).unwrap().to_owned();
    let (config, _) = url.split_once('?').unwrap();
    let (hand, connection) = tokio_postgres::connect(config, NoTls).await?;
    tokio::spawn(connection);
    hand.batch_execute(&format!(
        "CREATE FUNCTION {schema}.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.holder = 'slow' THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF;
            RETURN NEW; END $$;
        CREATE TRIGGER stop BEFORE INSERT ON {schema}.lease
            FOR EACH ROW EXECUTE FUNCTION {schema}.stop();
        SELECT pg_advisory_lock(4711)"
    ))
    .await?;
    let on_its_way = tokio::spawn(async move {
        granted(&*slow, &claim("t1/sweep/k", "slow")).await.map(|grant| grant.fence)
    });
    until("the slow one to be stopped", SOON, || async {
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 \
                       AND NOT granted";
        Ok(hand.query_one(waiting, &[]).await?.get::<_, i64>(0) == 1)
    })
    .await?;
    let first = granted(&*quick, &claim("t1/sweep/k", "quick")).await?;
    quick.release(&first).await?;
    ensure!(quick.sweep(Duration::ZERO).await? == 0, "swept under a grant on its way");
    hand.batch_execute("SELECT pg_advisory_unlock(4711)").await?;
    let second = on_its_way.await??;
    ensure!(second > first.fence, "fence {second:?} after {:?}", first.fence);
    Ok(())
}

#[tokio::test]
async fn a_sweep_leaves_what_stands_and_what_is_young() -> Result<()> {
    let store = open(&room()).await?;
    let stands = granted(&*store, &claim("t1/a", "stands")).await?;
    for number in 0..1500 {
        let grant = granted(&*store, &claim(&format!("t1/b{number}"), "gone")).await?;
        store.release(&grant).await?;
    }
    let expires = Claim { ttl: Duration::from_millis(1), ..claim("t1/c", "expires") };
    granted(&*store, &expires).await?;
    until("the short lease to end", SOON, || async {
        Ok(store.inspect(&expires.key).await?.is_none())
    })
    .await?;
    ensure!(store.sweep(Duration::from_secs(600)).await? == 0, "swept too early");
    sweeps(&store, 1501).await?;
    ensure!(matches!(store.release(&stands).await?, Released::Released(_)), "swept while held");
    Ok(())
}

//! The adapter over a register in memory that fails on command.

mod revised;
mod shelf;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shelf::{Fate, Hands, Shelf};

use super::{Entry, Purpose, Register, RegisterStore, Version, Write};
use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Pledge, Reentry, Released, Renewal, Renewed,
};
use crate::clock::SystemClock;
use crate::error::{ErrorKind, Result};
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::{Key, Namespace};
use crate::lease::{Lease, Status};
use crate::locks::Locks;
use crate::owner::Owner;
use crate::random::SystemRandom;
use crate::store::Store;

const TTL: Duration = Duration::from_secs(10);

/// A process with a clock of its own on the shared shelf.
struct Process {
    store: RegisterStore,
    clock: Arc<Hands>,
}

fn process(shelf: &Arc<Shelf>) -> Process {
    let clock = Arc::new(Hands::default());
    let register: Arc<dyn Register> = Arc::clone(shelf) as _;
    let store = RegisterStore::new(register, Arc::clone(&clock) as _, Arc::new(SystemRandom));
    Process { store, clock }
}

fn claim(owner: &str) -> Claim {
    Claim {
        key: Key::new("k").unwrap(),
        owner: Owner::parse(owner).unwrap(),
        ttl: TTL,
        holder: Holder::new("test").unwrap(),
        reentry: Reentry::Adopt,
    }
}

fn grant(owner: &str) -> Grant {
    let Claim { key, owner, .. } = claim(owner);
    Grant { key, owner, fence: None }
}

impl Process {
    async fn try_acquire(&self, owner: &str) -> Result<Attempt> {
        self.store.try_acquire(&claim(owner)).await
    }

    async fn granted(&self, owner: &str) -> Lease {
        match self.try_acquire(owner).await.unwrap() {
            Attempt::Granted(lease) => lease,
            Attempt::Held(status) => panic!("held: {status:?}"),
        }
    }

    async fn held(&self, owner: &str) -> Status {
        match self.try_acquire(owner).await.unwrap() {
            Attempt::Held(status) => status,
            Attempt::Granted(lease) => panic!("granted: {lease:?}"),
        }
    }

    async fn renew(&self, owner: &str) -> Result<Renewed> {
        self.store.renew(&Renewal { grant: grant(owner), ttl: TTL }).await
    }

    async fn release(&self, owner: &str) -> Result<Released> {
        self.store.release(&grant(owner)).await
    }
}

#[tokio::test]
async fn a_warm_cycle_costs_two_swaps_and_no_read() {
    let shelf = Shelf::new();
    let process = process(&shelf);
    let first = process.granted("a").await;
    assert_eq!(shelf.cost(), (1, 1), "cold: one look and one swap");
    process.release("a").await.unwrap();
    assert_eq!(shelf.cost(), (0, 1), "release");
    let second = process.granted("b").await;
    assert_eq!(shelf.cost(), (0, 1), "warm");
    assert!(matches!(process.renew("b").await.unwrap(), Renewed::Renewed(_)));
    assert_eq!(shelf.cost(), (0, 1), "renewal");
    assert!(second.fence > first.fence);
}

#[tokio::test]
async fn no_owner_shows_in_a_store_that_has_seen_it() {
    let shelf = Shelf::new();
    let process = process(&shelf);
    process.granted("canary").await;
    let body = b"canary";
    let version = Version { tag: "tag".into(), revision: None };
    let entry = Entry { version: version.clone(), body: body.to_vec() };
    let key = Key::new("k").unwrap();
    let write = Write { key: &key, expected: Some(&version), body, purpose: Purpose::Note };
    let shown = format!("{:?} {entry:?} {write:?}", process.store);
    let as_bytes = format!("{body:?}");
    let as_bytes = as_bytes.trim_matches(['[', ']']);
    assert!(!shown.contains("canary") && !shown.contains(as_bytes), "{shown}");
    assert!(shown.contains("6 bytes") && shown.contains("\"tag\""), "{shown}");
}

#[tokio::test]
async fn no_answer_without_a_swap_rests_on_an_old_look() {
    let shelf = Shelf::new();
    let (one, two) = (process(&shelf), process(&shelf));
    one.granted("a").await;
    two.held("b").await;
    shelf.cost();
    two.held("b").await;
    assert_eq!(shelf.cost(), (1, 0), "held is looked up anew each time");
    one.release("a").await.unwrap();
    shelf.cost();
    two.granted("b").await;
    assert_eq!(shelf.cost(), (1, 1), "a release that was not seen is found by looking");
    assert!(matches!(one.renew("a").await.unwrap(), Renewed::Lost(Some(_))));
    assert!(matches!(one.release("a").await.unwrap(), Released::NotHeld(Some(_))));
}

/// The answer to a look is so late that the lease would have ended by then; it was renewed.
#[tokio::test]
async fn what_ends_while_it_is_looked_at_is_not_said_to_have_ended() {
    let shelf = Shelf::new();
    let (one, two) = (process(&shelf), process(&shelf));
    let fence = one.granted("a").await.fence;
    two.held("b").await;
    let key = Key::new("k").unwrap();
    let late = || {
        two.clock.pass(TTL / 2);
        let clock = Arc::clone(&two.clock);
        shelf.meanwhile(move || clock.pass(TTL));
    };
    late();
    let seen = two.store.inspect(&key).await.unwrap();
    assert_eq!(seen.map(|lease| lease.fence), Some(fence));
    assert!(two.store.inspect(&key).await.unwrap().is_none(), "now it has been there for long");
    one.renew("a").await.unwrap();
    two.held("b").await;
    late();
    let all = ListQuery { prefix: String::new(), after: None, limit: 9 };
    let listed = two.store.list(&all).await.unwrap();
    assert_eq!(listed.items.len(), 1);
}

#[tokio::test]
async fn a_conflict_is_looked_into_and_tried_again() {
    let shelf = Shelf::new();
    let process = process(&shelf);
    shelf.next([Fate::Conflict, Fate::Conflict]);
    let lease = process.granted("a").await;
    // After a conflict with nothing to be seen of it there is a pause, and a second look.
    assert_eq!((lease.fence, shelf.cost()), (Fence::new(1), (5, 3)));
    shelf.next([Fate::Conflict]);
    assert!(matches!(process.release("a").await.unwrap(), Released::Released(_)));
    shelf.next([Fate::Conflict; 16]);
    let error = process.try_acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "never without end: {error}");
}

#[tokio::test]
async fn ones_own_write_is_adopted_by_its_nonce() {
    let shelf = Shelf::new();
    let process = process(&shelf);
    shelf.next([Fate::WrittenAndConflict]);
    let lease = process.granted("a").await;
    assert_eq!((lease.fence, shelf.cost()), (Fence::new(1), (2, 1)), "one grant, not two");
    shelf.next([Fate::WrittenAndConflict]);
    assert!(matches!(process.renew("a").await.unwrap(), Renewed::Renewed(_)));
    assert_eq!(shelf.cost(), (1, 1));
    shelf.next([Fate::WrittenAndConflict]);
    assert!(matches!(process.release("a").await.unwrap(), Released::Released(_)));
    assert_eq!(process.granted("b").await.fence, Fence::new(2));
}

#[tokio::test]
async fn what_is_not_known_is_said_and_found_out_by_the_next_call() {
    let shelf = Shelf::new();
    let process = process(&shelf);
    shelf.next([Fate::WrittenAndUnknown]);
    assert_eq!(process.try_acquire("a").await.unwrap_err().kind(), ErrorKind::Unknown);
    let seen = process.store.inspect(&claim("a").key).await.unwrap().unwrap();
    assert_eq!(process.granted("a").await.fence, seen.fence, "it is the same grant");
    shelf.next([Fate::WrittenAndUnknown]);
    assert_eq!(process.renew("a").await.unwrap_err().kind(), ErrorKind::Unknown);
    assert!(matches!(process.renew("a").await.unwrap(), Renewed::Renewed(_)));
    shelf.next([Fate::Unknown]);
    assert_eq!(process.release("a").await.unwrap_err().kind(), ErrorKind::Unknown);
    assert!(matches!(process.release("a").await.unwrap(), Released::Released(_)));
    shelf.next([Fate::WrittenAndUnknown]);
    assert_eq!(process.try_acquire("b").await.unwrap_err().kind(), ErrorKind::Unknown);
    assert!(matches!(process.release("b").await.unwrap(), Released::Released(_)));
}

#[tokio::test]
async fn an_observer_takes_over_after_a_full_ttl_on_its_own_clock() {
    let shelf = Shelf::new();
    let (holder, observer) = (process(&shelf), process(&shelf));
    let fence = holder.granted("a").await.fence;
    holder.clock.pass(TTL * 100);
    let seen = observer.held("b").await;
    assert_eq!(seen.remaining, TTL, "the holder's clock is not the observer's");
    observer.clock.pass(TTL - Duration::from_nanos(1));
    observer.held("b").await;
    observer.clock.pass(Duration::from_nanos(1));
    shelf.cost();
    assert!(observer.granted("b").await.fence > fence);
    assert_eq!(shelf.cost(), (0, 1), "what was seen long enough needs no other look");
    assert!(matches!(holder.renew("a").await.unwrap(), Renewed::Lost(Some(_))));
}

#[tokio::test]
async fn nobody_takes_over_what_changed_meanwhile() {
    let shelf = Shelf::new();
    let (holder, observer) = (process(&shelf), process(&shelf));
    holder.granted("a").await;
    observer.held("b").await;
    observer.clock.pass(TTL);
    holder.renew("a").await.unwrap();
    let seen = observer.held("b").await;
    assert_eq!(seen.remaining, TTL, "it counts anew from the renewal that it saw");
    observer.clock.pass(TTL);
    observer.granted("b").await;
    let late = process(&shelf);
    late.held("c").await;
}

#[tokio::test]
async fn the_counter_outlives_release_expiry_and_force() {
    let shelf = Shelf::new();
    let mut last = Fence::new(0);
    for turn in 0..6 {
        let (process, owner) = (process(&shelf), format!("owner {turn}"));
        let lease = loop {
            match process.try_acquire(&owner).await.unwrap() {
                Attempt::Granted(lease) => break lease,
                // What expired was never seen by this one: it takes a ttl to be sure.
                Attempt::Held(_) => process.clock.pass(TTL),
            }
        };
        assert!(lease.fence > last, "{} after {last}", lease.fence);
        last = lease.fence;
        match turn % 3 {
            0 => drop(process.release(&owner).await.unwrap()),
            1 => {
                let eviction = Eviction::new(lease.key, "a test").unwrap();
                process.store.force_release(&eviction).await.unwrap().unwrap();
            }
            _ => continue,
        }
        let body = shelf.body("k");
        let keeps_it = body.contains(&format!("\"fence\":{last}")) && !body.contains("lease");
        assert!(keeps_it, "{body}");
    }
}

#[tokio::test]
async fn a_renewal_never_revives_and_never_creates() {
    let shelf = Shelf::new();
    let process = process(&shelf);
    assert!(matches!(process.renew("a").await.unwrap(), Renewed::Lost(None)));
    process.granted("a").await;
    process.clock.pass(TTL);
    shelf.cost();
    assert!(matches!(process.renew("a").await.unwrap(), Renewed::Lost(None)));
    assert_eq!(shelf.cost(), (1, 0), "nothing is written");
    assert!(matches!(process.release("a").await.unwrap(), Released::NotHeld(None)));
    assert!(process.store.inspect(&claim("a").key).await.unwrap().is_none());
}

#[tokio::test]
async fn what_makes_no_sense_is_never_free() {
    let shelf = Shelf::new();
    let held =
        r#"{"v":1,"nonce":"n","lease":{"owner":"o","holder":"h","ttl_ms":1,"granted_at_ms":1}}"#;
    let last = r#"{"v":1,"nonce":"n","fence":18446744073709551615}"#;
    for body in ["", "hello", held, last] {
        shelf.put("k", body.as_bytes());
        let process = process(&shelf);
        let error = process.try_acquire("a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{body:?}: {error}");
        assert_eq!(shelf.body("k"), body, "it was written over");
    }
}

#[tokio::test]
async fn force_replaces_what_makes_no_sense_and_no_fence_goes_back() {
    let shelf = Shelf::new();
    let key = Eviction::new(claim("a").key, "a test").unwrap();
    for body in ["", "hello", r#"{"v":1,"nonce":"n","fence":18446744073709551615}"#] {
        shelf.put("k", body.as_bytes());
        let process = process(&shelf);
        assert_eq!(process.store.force_release(&key).await.unwrap(), None, "{body:?}");
        let granted = process.granted("a").await;
        assert!(granted.fence > Fence::new(1_000_000), "a microsecond each: {}", granted.fence);
        assert!(process.store.force_release(&key).await.unwrap().is_some(), "a lease is evicted");
        let next = process.granted("a").await;
        assert_eq!(next.fence.get(), granted.fence.get() + 1, "what can be read is counted on");
    }
    let later = r#"{"v":2,"nonce":"n","fence":7}"#;
    shelf.put("k", later.as_bytes());
    let error = process(&shelf).store.force_release(&key).await.unwrap_err();
    assert_eq!((error.kind(), shelf.body("k").as_str()), (ErrorKind::Unsupported, later));
}

#[tokio::test]
async fn listing_shows_the_live_and_goes_on_over_the_others() {
    let shelf = Shelf::new();
    let process = process(&shelf);
    for key in ["a", "b", "c"] {
        let claim = Claim { key: Key::new(key).unwrap(), ..claim("o") };
        process.store.try_acquire(&claim).await.unwrap();
        if key != "c" {
            let grant = Grant { key: claim.key, owner: claim.owner, fence: None };
            process.store.release(&grant).await.unwrap();
        }
    }
    shelf.put("d", b"something else");
    shelf.put("e", br#"{"v":2,"nonce":"of a later version"}"#);
    let pledge = Pledge { namespace: Namespace::default(), fingerprint: "f".into() };
    assert_eq!(process.store.agree(&pledge).await.unwrap(), "f");
    let query = |after| ListQuery { prefix: String::new(), after, limit: 2 };
    let page = process.store.list(&query(None)).await.unwrap();
    assert!(page.items.is_empty() && page.next.is_some(), "only released ones: {page:?}");
    let page = process.store.list(&query(page.next)).await.unwrap();
    let keys: Vec<_> = page.items.iter().map(|status| status.key.as_str()).collect();
    assert_eq!(keys, ["c"]);
    let page = process.store.list(&query(page.next)).await.unwrap();
    assert!(page.items.is_empty(), "{page:?}");
}

#[tokio::test]
async fn the_first_fingerprint_stands() {
    let shelf = Shelf::new();
    let pledge = |text: &str| Pledge { namespace: Namespace::default(), fingerprint: text.into() };
    shelf.next([Fate::Conflict]);
    assert_eq!(process(&shelf).store.agree(&pledge("one")).await.unwrap(), "one");
    assert_eq!(process(&shelf).store.agree(&pledge("two")).await.unwrap(), "one");
}

/// Whoever reads back a grant that was written some time ago must not count from the reading: the
/// others have counted all along.
#[tokio::test]
async fn a_grant_that_was_read_back_is_not_believed_in_for_too_long() {
    let (shelf, ttl) = (Shelf::new(), Duration::from_millis(800));
    let store = || {
        let register: Arc<dyn Register> = Arc::clone(&shelf) as _;
        let store = RegisterStore::new(register, Arc::new(SystemClock), Arc::new(SystemRandom));
        Arc::new(store) as Arc<dyn Store>
    };
    let one = Locks::builder().open_on(store()).await.unwrap();
    let two = Locks::builder().open_on(store()).await.unwrap();
    shelf.next([Fate::WrittenAndLate(ttl / 2)]);
    let first =
        tokio::spawn(
            async move { one.lock("k").ttl(ttl).keep_alive(false).acquire().await.unwrap() },
        );
    while shelf.swaps.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let second = two.lock("k").ttl(ttl).acquire().await.unwrap();
    let first = first.await.unwrap();
    assert!(second.is_held() && !first.is_held(), "two believe at once");
}

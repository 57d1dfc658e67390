//! Known bugs, switched on one at a time: a suite that does not find them proves nothing.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::Arc;
use std::thread;

use tenure::clock::SystemClock;
use tenure::planted::Bug;
use tenure::stores::memory::MemoryStore;
use tenure_testkit::conformance::{Maker, Subject, cases};
use tenure_testkit::mutants::{StoreBug, with_planted};

const AT_ONCE: usize = 6;

enum Planted {
    Client(Bug),
    Store(StoreBug),
}

use Planted::{Client, Store};

/// What is planted, where it was seen, and a case that must find it.
const PLANTED: &[(&str, Planted, &str)] = &[
    ("V3", Store(StoreBug::ExpiresEarly), "expiry::belief_ends_before_the_key_is_granted_again"),
    ("V4", Client(Bug::ForgottenReply), "ambiguity::a_lost_reply_to_acquire_is_adopted"),
    ("V5", Client(Bug::AssumedGrant), "ambiguity::a_lost_reply_that_cannot_be_read_back_is_undone"),
    ("V6", Client(Bug::AbsentIsFinal), "ambiguity::a_write_that_lands_late_is_undone"),
    ("V7", Store(StoreBug::RenewRevives), "renewal::a_renewal_never_revives"),
    ("prolong", Store(StoreBug::RenewFails), "renewal::keep_alive_outlives_the_ttl"),
    ("V8", Store(StoreBug::ReleaseTakesAny), "ownership::a_second_release_finds_nothing"),
    ("V11", Client(Bug::SilentLoss), "ambiguity::renewals_that_fail_are_told_in_time"),
    ("V12", Store(StoreBug::IgnoresCondition), "exclusion::many_contend_and_one_holds"),
    ("V13", Store(StoreBug::FailureIsHeld), "ambiguity::a_store_that_is_down_is_not_a_held_key"),
    ("V14", Store(StoreBug::NoWakeUp), "waiting::a_release_wakes_without_a_look"),
    ("V15", Client(Bug::UnstoppedWork), "renewal::work_is_stopped_when_the_lock_is_gone"),
    ("V16", Client(Bug::UnboundedRenewal), "ambiguity::a_renewal_that_hangs_costs_nothing"),
    ("fence", Store(StoreBug::FenceRestarts), "fencing::grows_across_release"),
    ("retry", Store(StoreBug::NotIdempotent), "ownership::the_same_owner_gets_the_same_grant"),
    ("late", Store(StoreBug::ExpiresLate), "expiry::a_lease_ends_with_its_ttl_and_not_before"),
    ("gone", Store(StoreBug::NeverReconnects), "ambiguity::a_store_that_is_down_is_not_a_held_key"),
    ("force", Store(StoreBug::ForceDoesNothing), "fencing::grows_across_force"),
    ("kept", Store(StoreBug::ReleaseDoesNothing), "fencing::grows_across_release"),
    ("stale", Store(StoreBug::StaleStatus), "listing::a_status_is_of_now"),
];

fn memory(bug: Option<StoreBug>) -> Maker {
    Maker::new("memory", move || {
        Box::pin(async move {
            let store: Arc<dyn tenure::Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
            let connect = move || {
                let store = Arc::clone(&store);
                Box::pin(async move { Ok(store) }) as _
            };
            let subject = Subject::new(connect, None, ());
            Ok(match bug {
                Some(bug) => subject.with_bug(bug),
                None => subject,
            })
        })
    })
}

/// What a bug comes to in the case that must find it, and nothing where it is missed.
fn found(planted: &Planted, finder: &str) -> Option<String> {
    let all = cases();
    let case = all.iter().find(|case| case.name() == finder);
    let case = case.unwrap_or_else(|| panic!("no case {finder}"));
    let sound = case.run(&memory(None));
    assert!(sound.is_ok(), "{finder} fails without the bug: {sound:?}");
    let outcome = match planted {
        Client(bug) => with_planted(*bug, || case.run(&memory(None))),
        Store(bug) => case.run(&memory(Some(*bug))),
    };
    outcome.err().map(|error| error.root_cause().to_string())
}

/// What becomes of several, side by side: most of a case is waiting.
fn found_at_once(some: &[(&str, Planted, &str)]) -> Vec<Option<String>> {
    thread::scope(|scope| {
        let hunts = some.iter().map(|(_, planted, finder)| scope.spawn(|| found(planted, finder)));
        let hunts: Vec<_> = hunts.collect();
        hunts.into_iter().map(|hunt| hunt.join().unwrap()).collect()
    })
}

#[test]
fn the_suite_finds_every_planted_bug() {
    let told: Vec<_> = PLANTED.chunks(AT_ONCE).flat_map(found_at_once).collect();
    for ((mode, _, finder), told) in PLANTED.iter().zip(&told) {
        println!("{mode:6} {finder}: {}", told.as_deref().unwrap_or("NOT FOUND"));
    }
    let missed = told.iter().filter(|told| told.is_none()).count();
    assert_eq!(missed, 0, "{missed} planted bugs were not found");
}

use std::path::PathBuf;
use std::sync::mpsc::channel;

use tokio::sync::oneshot;

use super::super::error::Fault;
use super::super::job::{Ask, Question};
use super::super::tests::{claim, grant_of, key};
use super::super::verbs::{Force, Look};
use super::*;
use crate::Operation;
use crate::claim::{Attempt, Claim, Grant, Pledge, Renewal, Renewed};
use crate::{Lease, Namespace};

fn work<Q: Question>(
    writer: &mut Writer,
    rows: &mut Rows<'_>,
    questions: Vec<Q>,
) -> Vec<Result<Q::Answer>> {
    type Asked<A> = (Vec<Box<dyn Job>>, Vec<oneshot::Receiver<Result<A>>>);
    let (mut jobs, mut answers): Asked<Q::Answer> = (Vec::new(), Vec::new());
    for question in questions {
        let (job, answer) = Ask::new(question);
        jobs.push(job);
        answers.push(answer);
    }
    let log = Arc::new(Log { file: writer.place.log().unwrap(), stamp: writer.stamp });
    let _ = writer.work(rows, &log, jobs);
    writer.syncer.drain();
    answers.into_iter().map(|mut answer| answer.try_recv().unwrap()).collect()
}

fn granted(attempts: Vec<Result<Attempt>>) -> Lease {
    match attempts.into_iter().next() {
        Some(Ok(Attempt::Granted(lease))) => lease,
        other => panic!("{other:?}"),
    }
}

fn renewal(grant: &Grant, ms: u64) -> Vec<Renewal> {
    vec![Renewal { grant: grant.clone(), ttl: Duration::from_millis(ms) }]
}

fn temporary() -> (tempfile::TempDir, Writer) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path().join("locks.db").to_str().unwrap()).unwrap();
    let (_, jobs) = channel();
    let boot = Boot::current().unwrap();
    let writer = Writer::open(Arc::new(place), boot, WatchHub::default(), jobs).unwrap();
    (folder, writer)
}

#[test]
fn only_renewals_that_promise_no_more_are_not_synced() {
    let (_folder, mut writer) = temporary();
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    let lease = granted(work(&mut writer, &mut rows, vec![claim("k", "a", 10_000)]));
    assert_eq!(writer.syncer.syncs(), 1, "a grant");
    let grant = grant_of(&lease);

    let renewed = work(&mut writer, &mut rows, renewal(&grant, 10_000));
    assert!(matches!(&renewed[..], [Ok(Renewed::Renewed(_))]), "{renewed:?}");
    assert_eq!(writer.syncer.syncs(), 1, "a renewal");
    let renewed = work(&mut writer, &mut rows, renewal(&grant, 20_000));
    assert!(matches!(&renewed[..], [Ok(Renewed::Renewed(l))] if l.ttl.as_secs() == 20));
    assert_eq!(writer.syncer.syncs(), 2, "a renewal with a longer ttl");

    work(&mut writer, &mut rows, renewal(&grant, 10_000));
    assert_eq!(writer.syncer.syncs(), 2);
    granted(work(&mut writer, &mut rows, vec![claim("k", "a", 10_000)]));
    assert_eq!(writer.syncer.syncs(), 3, "an adopted grant");
    let namespace = Namespace::default();
    work(&mut writer, &mut rows, vec![Pledge { namespace, fingerprint: "f".into() }]);
    assert_eq!(writer.syncer.syncs(), 4, "a pledge");
    work(&mut writer, &mut rows, vec![Look(key("k"))]);
    assert_eq!(writer.syncer.syncs(), 5, "a look, which may see what is not synced yet");
    work(&mut writer, &mut rows, vec![grant]);
    assert_eq!(writer.syncer.syncs(), 6, "a release, for which nobody waits");
}

#[test]
fn what_only_ends_or_prolongs_a_lease_does_not_wait_for_the_sync() {
    let (_folder, mut writer) = temporary();
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    let lease = granted(work(&mut writer, &mut rows, vec![claim("k", "a", 10_000)]));
    let grant = grant_of(&lease);
    let (renewal, _renewed) = Ask::new(renewal(&grant, 10_000).remove(0));
    let (look, _seen) = Ask::new(Look(key("k")));
    let (other, _granted) = Ask::new(claim("l", "a", 10_000));
    let (release, _released) = Ask::new(grant);
    let (force, _forced) = Ask::new(Force(key("l")));
    let mut jobs: Vec<Box<dyn Job>> = vec![renewal, look, other, release, force];
    assert!(writer.transact(&mut rows, &mut jobs).is_ok());
    let must_sync: Vec<_> = jobs.iter().map(|job| job.must_sync()).collect();
    assert_eq!(must_sync, [false, true, true, false, true]);
}

#[test]
fn a_release_is_synced_with_the_next_grant_or_when_its_time_has_come() {
    let (_folder, mut writer) = temporary();
    let (sender, jobs) = channel();
    writer.jobs = jobs;
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    let log = Arc::new(Log { file: writer.place.log().unwrap(), stamp: writer.stamp });
    let grant = grant_of(&granted(work(&mut writer, &mut rows, vec![claim("k", "a", 10_000)])));
    let (release, released) = Ask::new(grant);
    let _ = writer.work(&mut rows, &log, vec![release]);
    assert!(released.blocking_recv().unwrap().is_ok(), "nobody waits for the sync");
    let grant = grant_of(&granted(work(&mut writer, &mut rows, vec![claim("k", "b", 10_000)])));
    assert_eq!(writer.syncer.syncs(), 2, "two grants, and the release along with the second");
    assert_eq!(writer.syncer.sync_if_due(), None, "nothing is put off any more");

    let (release, _released) = Ask::new(grant);
    let _ = writer.work(&mut rows, &log, vec![release]);
    let syncs = writer.syncer.counter();
    let later = std::thread::spawn(move || {
        let end = SystemClock.now() + Duration::from_secs(10);
        while syncs() < 3 && SystemClock.now() < end {
            std::thread::yield_now();
        }
        sender.send(Ask::new(Look(key("k"))).0 as Box<dyn Job>).unwrap();
    });
    assert!(writer.next().is_some());
    assert_eq!(writer.syncer.syncs(), 3, "while nothing came");
    later.join().unwrap();
}

#[test]
fn a_batch_that_changes_nothing_writes_nothing() {
    let (folder, mut writer) = temporary();
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    granted(work(&mut writer, &mut rows, vec![claim("k", "a", 10_000)]));
    let size = || std::fs::metadata(folder.path().join("locks.db-wal")).unwrap().len();
    let before = size();
    let held = work(&mut writer, &mut rows, vec![claim("k", "b", 10_000)]);
    assert!(matches!(&held[..], [Ok(Attempt::Held(_))]));
    assert_eq!(size(), before);
}

#[test]
fn a_tainted_connection_is_replaced_and_fences_go_on() {
    let (_folder, mut writer) = temporary();
    let link = writer.connect().unwrap();
    {
        let mut rows = Rows::new(&link.connection).unwrap();
        granted(work(&mut writer, &mut rows, vec![claim("k", "a", 10_000)]));
        rows.abandon();
    }
    drop(link);
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    let held = work(&mut writer, &mut rows, vec![claim("k", "b", 10_000)]);
    assert!(matches!(&held[..], [Ok(Attempt::Held(_))]));
    let lease = granted(work(&mut writer, &mut rows, vec![claim("l", "b", 10_000)]));
    assert_eq!(lease.fence.get(), 2);
}

#[test]
fn a_file_that_another_machine_has_opened_is_refused() {
    let (_folder, mut writer) = temporary();
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    let boot = Boot { id: "another".into(), ..writer.boot.clone() };
    schema::open(&writer.place, &boot).unwrap();
    let refused = work(&mut writer, &mut rows, vec![claim("k", "a", 10_000)]);
    let [Err(error)] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    let refused = work(&mut writer, &mut rows, vec![Look(key("k"))]);
    assert!(matches!(&refused[..], [Err(error)] if error.kind() == ErrorKind::Mismatch));
}

#[test]
fn one_bad_job_does_not_spoil_its_batch() {
    let (_folder, mut writer) = temporary();
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    let mut endless = claim("k", "a", 1);
    endless.ttl = Duration::MAX;
    let answers = work(&mut writer, &mut rows, vec![endless, claim("l", "a", 1000)]);
    let [Err(error), Ok(Attempt::Granted(lease))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((error.kind(), &lease.key), (ErrorKind::Invalid, &key("l")));
}

/// A claim during whose transaction the file is removed.
#[derive(Debug)]
struct Sabotaged(Claim, PathBuf);

impl Question for Sabotaged {
    type Answer = Attempt;
    const OPERATION: Operation = Operation::Acquire;
    const KIND: Kind = Kind::Write;

    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<Attempt, Fault> {
        std::fs::remove_file(&self.1).unwrap();
        self.0.decide(batch)
    }
}

#[test]
fn a_file_removed_before_the_commit_is_no_grant() {
    let (folder, mut writer) = temporary();
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    let question = Sabotaged(claim("k", "a", 1000), folder.path().join("locks.db"));
    let answers = work(&mut writer, &mut rows, vec![question]);
    let [Err(error)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(error.kind(), ErrorKind::Unknown);
    let answers = work(&mut writer, &mut rows, vec![claim("l", "a", 1000)]);
    assert!(matches!(&answers[..], [Err(error)] if error.kind() == ErrorKind::Damaged));
}

#[test]
fn a_full_disk_changes_nothing_and_passes() {
    let (_folder, mut writer) = temporary();
    let link = writer.connect().unwrap();
    let mut rows = Rows::new(&link.connection).unwrap();
    let limit = |pages: u32| {
        let sql = format!("PRAGMA max_page_count = {pages}");
        link.connection.query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap();
    };
    limit(12);
    let mut next = 0..;
    let mut grants = 0;
    let error = loop {
        let claim = claim(&format!("{:0>300}", next.next().unwrap()), "a", 60_000);
        match work(&mut writer, &mut rows, vec![claim]).remove(0) {
            Ok(Attempt::Granted(lease)) => grants = lease.fence.get(),
            Ok(Attempt::Held(status)) => panic!("{status:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("the disk is full"), "{error}");
    limit(1000);
    let lease = granted(work(&mut writer, &mut rows, vec![claim("k", "a", 1000)]));
    assert_eq!(lease.fence.get(), grants + 1, "the failed grant has left nothing behind");
}

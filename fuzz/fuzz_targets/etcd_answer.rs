//! Etcd's answers: what is read can be written, and reads as the same. What stands under a key is
//! what the answer says, a grant has its number from there or there is none, and whoever waits for
//! a key is woken by what becomes of it. A version that makes no sense is refused, one member alone
//! is trusted with no less than several, and who may not ask for their number gets the worse.

#![no_main]

use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use prost::Message;
use tenure::clock::Moment;
use tenure::fuzzing::{
    EtcdReader, EtcdWaiters, ReadCell, etcd_answer, etcd_counts, etcd_granted, etcd_version,
    read_cell,
};
use tenure::rule::Record;
use tenure::{ErrorKind, Fence, Holder, Key, Owner, Severity};

static READER: LazyLock<EtcdReader> =
    LazyLock::new(|| EtcdReader::new(&Key::new("k").unwrap()).unwrap());

// The messages as etcd has them, with what is looked at here.
#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    responses: Vec<Response>,
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
    #[prost(uint64, tag = "4")]
    raft_term: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    range: Option<Range>,
}

#[derive(Clone, PartialEq, Message)]
struct Range {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(int64, tag = "2")]
    create_revision: i64,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
    #[prost(int64, tag = "6")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Alive {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(int64, tag = "3")]
    ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Watched {
    #[prost(int64, tag = "2")]
    watch_id: i64,
    #[prost(bool, tag = "3")]
    created: bool,
    #[prost(bool, tag = "4")]
    canceled: bool,
    #[prost(string, tag = "6")]
    cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
struct Event {}

// A kind, and one answer; or answers with their lengths before them.
fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = str::from_utf8(bytes) {
        version(text);
    }
    let Some((kind, rest)) = bytes.split_first() else { return };
    if let Some((written, is_same)) = etcd_answer(*kind, rest) {
        assert!(is_same);
        assert_eq!(etcd_answer(*kind, &written).unwrap().0, written);
    }
    found(rest);
    granted(rest);
    let (alive, answer) = next(bytes).unwrap_or_default();
    counts(alive, answer);
    watches(bytes);
});

/// The next of several answers, and those behind it.
fn next(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked((*length).into())
}

/// What stands under the key is what the first answer within says; and if there is none, or it is
/// no record of ours, or of no change, the key is not free.
fn found(bytes: &[u8]) {
    let Some(read) = READER.found(bytes) else { return };
    let sent = Txn::decode(bytes).unwrap();
    let range = sent.responses.into_iter().next().and_then(|response| response.range);
    let Some(range) = range else {
        return assert_eq!(read.unwrap_err().kind(), ErrorKind::Damaged);
    };
    let pair = range.kvs.into_iter().next();
    let Some(pair) = pair else { return assert!(matches!(read, Ok(None))) };
    let fence = Fence::new(pair.create_revision.try_into().unwrap_or_default());
    if pair.create_revision <= 0 || pair.mod_revision <= 0 {
        return assert_eq!(read.unwrap_err().kind(), ErrorKind::Damaged);
    }
    match (read, read_cell(&pair.value, fence)) {
        (Ok(Some((record, revision, lease))), Ok(ReadCell { record: Ok(Some(cell)), .. })) => {
            assert_eq!((revision, lease), (pair.mod_revision, pair.lease));
            // How long it still stands is not in it.
            assert_eq!(Record { deadline: cell.deadline, ..record }, cell);
        }
        (Err(error), Ok(ReadCell { record: Ok(None) | Err(_), .. })) => {
            assert_eq!(error.kind(), ErrorKind::Damaged);
        }
        (Err(error), Err(other)) => assert_eq!(error.kind(), other.kind()),
        pair => panic!("{pair:?}"),
    }
}

/// A grant has the number of the change that made it, and keeps that when it is renewed. Without
/// one, nobody knows.
fn granted(bytes: &[u8]) {
    let (owner, holder) = (Owner::parse("o").unwrap(), Holder::new("h").unwrap());
    let (fence, deadline) = (Fence::new(0), Moment::from_nanos(0));
    let ttl = Duration::from_secs(9);
    let record = Record { owner, holder, fence, ttl, deadline, granted_at: UNIX_EPOCH };
    let Some(granted) = etcd_granted(bytes, record.clone(), None) else { return };
    let old = Record { fence: Fence::new(5), ..record.clone() };
    let renewed = etcd_granted(bytes, record, Some(old)).unwrap();
    assert_eq!(renewed.is_ok(), granted.is_ok());
    assert!(renewed.is_ok_and(|(record, ..)| record.fence == Fence::new(5)) || granted.is_err());
    let sent = Txn::decode(bytes).unwrap();
    assert!(sent.succeeded);
    let told = sent.header.map_or(0, |header| header.revision);
    match granted {
        Ok((record, revision, _)) => {
            assert!(told > 0, "a grant without a fence");
            assert_eq!((i64::try_from(record.fence.get()), revision), (Ok(told), told));
            assert_eq!((record.ttl, record.deadline.as_nanos()), (ttl, 9_000_000_000));
        }
        Err(error) => assert_eq!((error.kind(), told > 0), (ErrorKind::Unknown, false)),
    }
}

/// A keep-alive counts that a lease has answered, in no earlier a term.
fn counts(alive: &[u8], answer: &[u8]) {
    let Some(counts) = etcd_counts(alive, answer) else { return };
    let (alive, answer) = (Alive::decode(alive).unwrap(), Txn::decode(answer).unwrap());
    let term = |header: Option<Header>| header.map_or(0, |header| header.raft_term);
    assert_eq!(counts, alive.ttl > 0 && term(alive.header) >= term(answer.header));
}

const WAITERS: usize = 4;

/// Nobody is woken but those whose key changed; and whose watch ended is given another one, and
/// woken when it stands.
fn watches(mut bytes: &[u8]) {
    let mut waiters = EtcdWaiters::new(WAITERS);
    assert_eq!(waiters.asked(), WAITERS);
    let mut pending: VecDeque<_> = (0..WAITERS).map(|number| (number, false)).collect();
    let mut by_id = HashMap::new();
    while let Some((answer, rest)) = next(bytes) {
        bytes = rest;
        let Some(outcome) = waiters.take(answer) else { continue };
        let sent = Watched::decode(answer).unwrap();
        if sent.created && sent.canceled {
            let kind = outcome.unwrap_err().kind();
            let is_denied = ["permission denied", "auth"].map(|it| sent.cancel_reason.contains(it));
            assert_eq!(kind == ErrorKind::Denied, is_denied.contains(&true));
            return assert!(kind == ErrorKind::Denied || kind == ErrorKind::Unavailable);
        }
        outcome.unwrap();
        let (mut woken, mut asked) = (None, 0);
        if sent.created {
            if let Some((waiter, is_again)) = pending.pop_front() {
                by_id.insert(sent.watch_id, waiter);
                woken = is_again.then_some(waiter);
            }
        } else if sent.canceled {
            let waiter = by_id.remove(&sent.watch_id);
            asked = usize::from(waiter.is_some());
            pending.extend(waiter.map(|waiter| (waiter, true)));
        } else if !sent.events.is_empty() {
            woken = by_id.get(&sent.watch_id).copied();
        }
        assert_eq!((waiters.woken(), waiters.asked()), (Vec::from_iter(woken), asked), "{sent:?}");
    }
}

fn version(text: &str) {
    let lowers = |members| {
        let findings = etcd_version(text, members)?;
        Ok(findings.iter().any(|finding| finding.severity == Severity::Lowering))
    };
    match (lowers(Some(1)), lowers(None)) {
        (Ok(alone), Ok(of_who_knows)) => {
            assert!(of_who_knows || !alone, "{text}");
            assert_eq!(lowers(Some(3)).unwrap(), of_who_knows);
            let number = text.split(['-', '+']).next().unwrap();
            let parts: Vec<u64> = number.split('.').map_while(|part| part.parse().ok()).collect();
            assert!(parts.len() >= 3 && (parts[0], parts[1]) >= (3, 4), "{text}");
        }
        (Err(one), Err(other)) => {
            let kinds: [ErrorKind; 2] = [one, other].map(|error: tenure::Error| error.kind());
            assert_eq!(kinds, [ErrorKind::Unsupported; 2]);
        }
        _ => panic!("{text:?} is a version with one member or with any number of them only"),
    }
}

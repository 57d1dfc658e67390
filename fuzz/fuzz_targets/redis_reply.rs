//! The answer of a script in Redis: a lock is never read as a free key, whoever set it, and neither
//! is an answer that says something else; a record is read as what was written; and what makes no
//! sense is damage that shows no owner. What `INFO` does not say never makes a store better than it
//! is. Whoever is sent on to another node is told its name.

#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tenure::fuzzing::{
    RedisValue, redis_info, redis_redirection, redis_reply, redis_slots, redis_value,
};
use tenure::{ErrorKind, Holder, Key, Lease, Owner, Severity};

// Behind the numbers, with zero bytes between: a verdict, an owner, a holder, a record. Or all of
// them together are an answer to `INFO`, the names of nodes of a Cluster, or what a server sends.
fuzz_target!(|input: (i64, u64, u64, u32, &[u8])| {
    let (left, fence, ttl, granted, bytes) = input;
    text(bytes).map(info);
    nodes(left, fence, bytes);
    if let Some(value) = redis_value(bytes) {
        sent(&value);
    }
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let verdict = parts.next().and_then(text).unwrap_or_default();
    let [owner, holder, record] = [(); 3].map(|()| parts.next());
    let answer = |record: Option<&[u8]>| {
        let parts = [Some(verdict.as_bytes()), owner, record].map(bulk);
        RedisValue::Array(parts.into_iter().chain([RedisValue::Int(left)]).collect())
    };
    if let Some((read, lease)) = reply(answer(record)) {
        assert_eq!(read, verdict);
        let is_of_owner = record.and_then(|record| record.split(|c| *c == b'\n').next()) == owner;
        // What stands beside the lock may be left from an earlier one.
        assert!(lease.is_none_or(|lease| is_of_owner || lease.fence.get() == 0));
    }
    let (Some(owner), Some(holder)) = (owner.and_then(text), holder.and_then(text)) else { return };
    let (Ok(_), Ok(_)) = (Owner::parse(owner), Holder::new(holder)) else { return };
    let record = format!("{owner}\n{fence}\n{ttl}\n{granted}\n{holder}");
    let lease = reply(answer(Some(record.as_bytes()))).unwrap().1.unwrap();
    assert_eq!((lease.owner.expose().as_str(), lease.holder.as_str()), (owner, holder));
    assert_eq!((lease.fence.get(), lease.ttl), (fence, Duration::from_millis(ttl)));
});

/// What a server sends, as a whole answer and in the place of each part of one.
fn sent(value: &RedisValue) {
    reply(value.clone());
    slots(value.clone());
    let held = [&b"held"[..], b"o", b"o\n7\n500\n2000000\nh"].map(|text| bulk(Some(text)));
    let held: Vec<RedisValue> = held.into_iter().chain([RedisValue::Int(1)]).collect();
    for at in 0..held.len() {
        reply(with(&held, at, value));
    }
    let primary = [bulk(Some(b"node")), RedisValue::Int(7000)];
    let whole = RedisValue::Array(primary.to_vec());
    let stretch = [RedisValue::Int(0), RedisValue::Int(16_383), whole];
    for at in 0..stretch.len() {
        slots(RedisValue::Array(vec![with(&stretch, at, value)]));
    }
    for at in 0..primary.len() {
        let odd = with(&primary, at, value);
        slots(RedisValue::Array(vec![with(&stretch, 2, &odd)]));
    }
}

/// An answer with another part in one place.
fn with(parts: &[RedisValue], at: usize, part: &RedisValue) -> RedisValue {
    let mut parts = parts.to_vec();
    parts[at] = part.clone();
    RedisValue::Array(parts)
}

/// Only where nothing stands on the key is it free; and an error is the same whatever it is about.
fn reply(answer: RedisValue) -> Option<(String, Option<Lease>)> {
    let key = Key::new("k").unwrap();
    let is_free = match &answer {
        RedisValue::Array(parts) => matches!(parts.as_slice(), [_, RedisValue::Nil, _, _]),
        _ => false,
    };
    match redis_reply(&key, answer) {
        Ok((verdict, lease)) => {
            assert_eq!(lease.is_none(), is_free);
            Some((verdict, lease))
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Damaged);
            let other = redis_reply(&key, RedisValue::Nil).unwrap_err();
            assert_eq!(format!("{error:?}"), format!("{other:?}"));
            None
        }
    }
}

/// Every stretch of slots is read, or none is.
fn slots(answer: RedisValue) {
    let known: Option<BTreeMap<_, _>> = match &answer {
        RedisValue::Array(stretches) => stretches.iter().map(stretch).collect(),
        _ => None,
    };
    let by_last = |(last, host, port)| (last, (host, port));
    let read = redis_slots(answer).map(|read| read.into_iter().map(by_last));
    let read: Option<BTreeMap<_, _>> = read.map(Iterator::collect);
    assert_eq!(read, known);
}

/// The last slot of a stretch, with the host and the port of its primary.
fn stretch(value: &RedisValue) -> Option<(u16, (String, u16))> {
    let RedisValue::Array(parts) = value else { return None };
    let [RedisValue::Int(_), RedisValue::Int(last), RedisValue::Array(primary)] = parts.get(..3)?
    else {
        return None;
    };
    let [host, RedisValue::Int(port)] = primary.get(..2)? else { return None };
    let host = match host {
        RedisValue::BulkString(host) => text(host)?,
        RedisValue::Nil => "",
        _ => return None,
    };
    // Whoever does not know its own name is the one that was asked.
    let host = if matches!(host, "" | "?") { "asked" } else { host };
    Some((u16::try_from(*last).ok()?, (host.to_owned(), u16::try_from(*port).ok()?)))
}

fn nodes(last: i64, port: u64, bytes: &[u8]) {
    let port = u16::try_from(port % 65_536).unwrap();
    let stretch = |last: i64, host: Option<&[u8]>| {
        let primary = RedisValue::Array(vec![bulk(host), RedisValue::Int(port.into())]);
        RedisValue::Array(vec![RedisValue::Int(0), RedisValue::Int(last), primary])
    };
    // The first has no name; the others have one each, and a slot of their own.
    let hosts = [None].into_iter().chain(bytes.split(|byte| *byte == 0).map(Some));
    let stretches = (0..).zip(hosts).map(|(last, host)| stretch(last, host));
    let stretches: Vec<RedisValue> = stretches.take(100).collect();
    slots(RedisValue::Array(stretches.clone()));
    // A slot that cannot be is no slot.
    slots(RedisValue::Array([stretches, vec![stretch(last, None)]].concat()));
    if let Some(line) = text(bytes) {
        let is_host = |host: &str| !matches!(host, "" | "?");
        assert!(redis_redirection(line).is_none_or(|(host, _)| is_host(&host)));
    }
    let told = redis_redirection(&format!("MOVED 7 node:{port}"));
    assert_eq!(told, Some(("node".to_owned(), port)));
}

fn info(text: &str) {
    match redis_info(text) {
        Ok(findings) => {
            let lowers = |topic: &str| {
                let mut lowering = findings.iter().filter(|it| it.severity == Severity::Lowering);
                lowering.any(|finding| finding.topic == topic)
            };
            assert!(text.contains("aof_enabled:") || lowers("appendonly"));
            assert!(text.contains("connected_slaves:") || lowers("replication"));
            assert!(text.contains("maxmemory") || lowers("maxmemory-policy"));
        }
        Err(error) => {
            let kinds = [ErrorKind::Invalid, ErrorKind::Unavailable, ErrorKind::Unsupported];
            assert!(kinds.contains(&error.kind()), "{error:?}");
        }
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok()
}

fn bulk(bytes: Option<&[u8]>) -> RedisValue {
    bytes.map_or(RedisValue::Nil, |bytes| RedisValue::BulkString(bytes.into()))
}

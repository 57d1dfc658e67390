//! The answer of a script in Redis: a lock is never read as a free key, whoever set it; a record
//! is read as what was written; and what makes no sense is damage that shows no owner. What `INFO`
//! does not say never makes a store better than it is. Whoever is sent on to another node is told
//! its name.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tenure::fuzzing::{RedisFields, redis_info, redis_redirection, redis_reply, redis_slots};
use tenure::{ErrorKind, Holder, Key, Owner, Severity};

// Behind the numbers, with zero bytes between: a verdict, an owner, a holder, a record. Or all of
// them together are an answer to `INFO`, or the names of nodes of a Cluster.
fuzz_target!(|input: (i64, u64, u64, u32, &[u8])| {
    let (left, fence, ttl, granted, bytes) = input;
    text(bytes).map(info);
    nodes(left, fence, bytes);
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let verdict = parts.next().and_then(text).unwrap_or_default();
    let [owner, holder, record] = [(); 3].map(|()| parts.next());
    let key = Key::new("k").unwrap();
    let fields = |record: Option<&[u8]>| RedisFields {
        verdict: verdict.into(),
        owner: owner.map(Into::into),
        record: record.map(Into::into),
        left,
    };
    match redis_reply(&key, fields(record)) {
        Ok((read, lease)) => {
            assert_eq!(read, verdict);
            assert_eq!(lease.is_some(), owner.is_some());
            let is_of_owner =
                record.and_then(|record| record.split(|c| *c == b'\n').next()) == owner;
            // What stands beside the lock may be left from an earlier one.
            assert!(lease.is_none_or(|lease| is_of_owner || lease.fence.get() == 0));
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged),
    }
    let (Some(owner), Some(holder)) = (owner.and_then(text), holder.and_then(text)) else { return };
    let (Ok(_), Ok(_)) = (Owner::parse(owner), Holder::new(holder)) else { return };
    let record = format!("{owner}\n{fence}\n{ttl}\n{granted}\n{holder}");
    let lease = redis_reply(&key, fields(Some(record.as_bytes()))).unwrap().1.unwrap();
    assert_eq!((lease.owner.expose().as_str(), lease.holder.as_str()), (owner, holder));
    assert_eq!((lease.fence.get(), lease.ttl), (fence, Duration::from_millis(ttl)));
});

fn nodes(last: i64, port: u64, bytes: &[u8]) {
    let is_host = |host: &str| !host.is_empty() && host != "?";
    let (at, port) = ((port % 65_536) as u16, (port % 65_536) as i64);
    // The first has no name; the others have one each, and a slot of their own.
    let hosts = [None].into_iter().chain(bytes.split(|byte| *byte == 0).map(Some));
    let stretches = (0..).zip(hosts).map(|(slot, host)| (slot, host.map(Into::into), port));
    let stretches: Vec<(i64, Option<Vec<u8>>, i64)> = stretches.take(100).collect();
    let number = stretches.len();
    if let Some(found) = redis_slots(stretches.clone()) {
        assert_eq!(found.len(), number);
        assert!(found.iter().all(|(_, host, found)| is_host(host) && *found == at));
    }
    // A slot that cannot be is no slot.
    let odd = redis_slots([stretches, vec![(last, None, port)]].concat());
    assert!(odd.is_none() || u16::try_from(last).is_ok());
    if let Some(line) = text(bytes) {
        assert!(redis_redirection(line).is_none_or(|(host, _)| is_host(&host)));
    }
    let told = redis_redirection(&format!("MOVED 7 node:{at}"));
    assert_eq!(told, Some(("node".to_owned(), at)));
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

//! The body of an entry in a register or in etcd: what is read can be written and read again, what
//! is written is read as what it was, and what is not ours is never taken for free. Of a refusal of
//! object storage only its word is kept.

#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use tenure::clock::Moment;
use tenure::fuzzing::{object_refusal, read_cell, write_cell};
use tenure::rule::Record;
use tenure::{ErrorKind, Fence, Holder, Owner};

// By lines, behind the numbers: an owner, a holder, a body.
fuzz_target!(|input: (u64, u64, u64, &[u8])| {
    let (fence, ttl_ms, granted_ms, bytes) = input;
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let [owner, holder, body] = [(); 3].map(|()| lines.next().unwrap_or_default());
    let fence = Fence::new(fence);
    match read_cell(body, fence) {
        Ok(read) => {
            let again = read_cell(&read.written, fence).unwrap();
            assert_eq!(again.written, read.written);
            match (again.record, read.record) {
                (Ok(again), Ok(read)) => assert_eq!(again, read),
                (Err(error), Err(_)) => assert_eq!(error.kind(), ErrorKind::Damaged),
                pair => panic!("{pair:?}"),
            }
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Unsupported));
        }
    }
    let word = object_refusal(body);
    assert!(word.len() <= 64 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{word}");
    assert_eq!(object_refusal(format!("<Error><Code>{word}</Code>").as_bytes()), word);
    let (Ok(owner), Ok(holder)) = (str::from_utf8(owner), str::from_utf8(holder)) else { return };
    let (Ok(owner), Ok(holder)) = (Owner::parse(owner), Holder::new(holder)) else { return };
    let ttl = Duration::from_millis(ttl_ms);
    let granted_at = UNIX_EPOCH + Duration::from_millis(granted_ms);
    let deadline = Moment::from_nanos(0) + ttl;
    let record = Record { owner, holder, fence, ttl, deadline, granted_at };
    let written = write_cell(&record, "nonce").unwrap();
    assert_eq!(read_cell(&written, fence).unwrap().record.unwrap(), Some(record));
});

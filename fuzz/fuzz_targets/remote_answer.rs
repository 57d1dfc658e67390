//! Answers of a tenure server to the remote store: what a lease says is what was sent, one that
//! makes no sense leaves open what was done, and of many on one stream each goes to whoever asked
//! for it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use tenure::fuzzing::{remote_exchange, remote_info, remote_status};
use tenure::store::Class;
use tenure::{ErrorKind, Severity};
use tenure_api::tenure_v1::exchange_answer::Answer;
use tenure_api::tenure_v1::{ExchangeAnswer, ExchangeResponse, GetInfoResponse, StoredLease};
use tenure_api::time::to_wire;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(sent) = StoredLease::decode(bytes) {
        match remote_status(sent.clone()) {
            Ok(read) => {
                assert_eq!((read.key.as_str(), read.fence.get()), (&*sent.key, sent.fence));
                assert_eq!(read.holder.as_str(), sent.holder);
                assert!(!read.holder.as_str().contains(char::is_control));
                assert_eq!(sent.ttl, Some(to_wire(read.ttl)));
                assert_eq!(sent.remaining, Some(to_wire(read.remaining)));
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unknown),
        }
    }
    if let Ok(sent) = GetInfoResponse::decode(bytes) {
        match remote_info(sent.clone()) {
            Ok(info) => {
                let lowers = |severity| matches!(severity, Severity::Lowering | Severity::Refusal);
                let is_lowered = info.findings.iter().any(|finding| lowers(finding.severity));
                assert_eq!(info.findings.len(), sent.findings.len() + 1);
                assert!(!is_lowered || info.class == Class::Efficiency);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
        }
    }
    if let Ok(sent) = ExchangeResponse::decode(bytes) {
        exchange(sent);
    }
});

const CALLERS: usize = 3;

fn exchange(sent: ExchangeResponse) {
    let told = remote_exchange(CALLERS, sent.clone());
    assert_eq!(told.len(), CALLERS);
    for (number, told) in (1..).zip(told) {
        // A call has one answer, which is the first.
        let answer = sent.answers.iter().find(|answer| answer.number == number);
        let Some(ExchangeAnswer { answer, .. }) = answer else {
            assert!(told.is_none());
            continue;
        };
        match (answer, told.unwrap()) {
            (Some(Answer::Refusal(_)), Err(_)) => {}
            (None, Err(error)) => assert_eq!(error.kind(), ErrorKind::Unknown),
            (Some(answer), Ok(told)) => assert_eq!(*answer, told),
            pair => panic!("{pair:?}"),
        }
    }
}

//! Answers of a tenure server to the remote store: what a lease says is what was sent, one that
//! makes no sense leaves open what was done, and so does a refusal that cannot be read. Of many on
//! one stream each goes to whoever asked for it.

#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use prost_types::Any;
use tenure::fuzzing::{remote_exchange, remote_info, remote_refusal, remote_status};
use tenure::store::Class;
use tenure::{ErrorKind, Retry, Severity};
use tenure_api::tenure_v1::exchange_answer::Answer;
use tenure_api::tenure_v1::{
    ExchangeAnswer, ExchangeRefusal, ExchangeResponse, GetInfoResponse, StoredLease,
};
use tenure_api::time::to_wire;
use tenure_api::{Code, DOMAIN};

/// What gRPC says more of an error with.
#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(map = "string, string", tag = "3")]
    metadata: HashMap<String, String>,
}

const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

/// The statuses of what stands before a server and does not let the request through: permission
/// denied, unimplemented, unauthenticated.
const BEFORE: [i32; 3] = [7, 12, 16];

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
    if let Ok(sent) = ExchangeRefusal::decode(bytes) {
        refusal(&sent);
    }
});

/// Only the server's own word says that nothing was done, or that another holds the key.
fn refusal(sent: &ExchangeRefusal) {
    let said = said(&sent.details);
    for is_write in [false, true] {
        let (error, again) = remote_refusal(sent.clone(), is_write);
        let is_before = BEFORE.contains(&sent.code);
        match (said, is_before) {
            (Some(code), _) => {
                assert_eq!(error.to_string(), sent.message);
                assert_eq!((retry(error.retry()), again), (code.fault().retry, false));
                assert_eq!(error.kind() == ErrorKind::Held, code == Code::Held);
            }
            (None, true) => assert_eq!((error.retry(), again), (Retry::Never, false)),
            (None, false) if is_write => {
                assert_eq!((error.kind(), again), (ErrorKind::Unknown, false));
            }
            (None, false) => assert_eq!((error.kind(), again), (ErrorKind::Unavailable, true)),
        }
    }
}

/// The code that a server of ours gave, if it is one that speaks.
fn said(details: &[u8]) -> Option<Code> {
    let details = Details::decode(details).ok()?.details;
    let mut infos = details.iter().filter(|any| any.type_url == ERROR_INFO);
    let info = infos.find_map(|any| ErrorInfo::decode(&*any.value).ok())?;
    Code::by_name(&info.reason).filter(|_| info.domain == DOMAIN)
}

fn retry(retry: Retry) -> &'static str {
    match retry {
        Retry::Never => "never",
        Retry::Safe => "safe",
        Retry::Unknown => "unknown",
    }
}

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
            (Some(Answer::Refusal(refusal)), Err(error)) => {
                assert_eq!(error.kind(), remote_refusal(refusal.clone(), true).0.kind());
            }
            (None, Err(error)) => assert_eq!(error.kind(), ErrorKind::Unknown),
            (Some(answer), Ok(told)) => assert_eq!(*answer, told),
            pair => panic!("{pair:?}"),
        }
    }
}

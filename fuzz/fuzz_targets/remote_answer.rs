//! Answers of a tenure server to the remote store: what a lease says is what was sent, and one that
//! makes no sense leaves open what was done.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use tenure::fuzzing::{remote_info, remote_status};
use tenure::store::Class;
use tenure::{ErrorKind, Severity};
use tenure_api::tenure_v1::{GetInfoResponse, StoredLease};
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
});

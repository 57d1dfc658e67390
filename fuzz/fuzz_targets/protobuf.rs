//! The messages of tenure's and Dapr's API: what is read can be written, and reads as the same; and
//! what is wrong with what one asks for is told without its owner.

#![no_main]

use std::fmt::Debug;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use tenure_api::{Code, dapr_v1, tenure_v1};
use tenure_server::fuzzing::{read_claim, read_grant, read_hold, read_lock};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    READERS[usize::from(*kind) % READERS.len()](bytes);
});

const READERS: &[fn(&[u8])] = &[
    again::<tenure_v1::LockRequest>,
    again::<tenure_v1::LockResponse>,
    again::<tenure_v1::HoldRequest>,
    again::<tenure_v1::HoldResponse>,
    again::<tenure_v1::RenewRequest>,
    again::<tenure_v1::RenewResponse>,
    again::<tenure_v1::UnlockRequest>,
    again::<tenure_v1::ForceUnlockRequest>,
    again::<tenure_v1::ForceUnlockResponse>,
    again::<tenure_v1::GetRequest>,
    again::<tenure_v1::GetResponse>,
    again::<tenure_v1::ListRequest>,
    again::<tenure_v1::ListResponse>,
    again::<tenure_v1::WatchEventsRequest>,
    again::<tenure_v1::WatchEventsResponse>,
    again::<tenure_v1::ListStoresResponse>,
    again::<tenure_v1::GetInfoRequest>,
    again::<tenure_v1::GetInfoResponse>,
    again::<tenure_v1::ExchangeRequest>,
    again::<tenure_v1::ExchangeResponse>,
    again::<tenure_v1::WatchKeysRequest>,
    again::<tenure_v1::WatchKeysResponse>,
    again::<tenure_v1::ForceReleaseRequest>,
    again::<tenure_v1::ForceReleaseResponse>,
    again::<tenure_v1::ListLeasesRequest>,
    again::<tenure_v1::ListLeasesResponse>,
    again::<tenure_v1::AgreeRequest>,
    again::<tenure_v1::AgreeResponse>,
    again::<dapr_v1::TryLockRequest>,
    again::<dapr_v1::UnlockRequest>,
    again::<dapr_v1::UnlockResponse>,
    again::<dapr_v1::LockRequestAlpha2>,
    again::<dapr_v1::LockStreamResponseAlpha2>,
    again::<dapr_v1::UnlockRequestAlpha2>,
    again::<dapr_v1::ForceUnlockRequestAlpha2>,
    again::<dapr_v1::GetMetadataResponse>,
    again::<dapr_v1::SetMetadataRequest>,
    claims,
    grants,
    locks,
    holds,
];

const SECRET: &str = "hunter2, which is in no other field";

fn claims(bytes: &[u8]) {
    let Ok(mut request) = tenure_v1::TryAcquireRequest::decode(bytes) else { return };
    request.owner.insert_str(0, SECRET);
    keeps_secrets(read_claim(request));
}

fn grants(bytes: &[u8]) {
    let Ok(mut grant) = tenure_v1::StoredGrant::decode(bytes) else { return };
    grant.owner.insert_str(0, SECRET);
    keeps_secrets(read_grant(Some(grant)));
}

fn locks(bytes: &[u8]) {
    let Ok(mut request) = tenure_v1::LockRequest::decode(bytes) else { return };
    request.lock_id.insert_str(0, SECRET);
    let asked = request.ttl;
    keeps_secrets(read_lock(request).map(|ttl| means(asked, ttl)));
}

fn holds(bytes: &[u8]) {
    let Ok(request) = tenure_v1::HoldRequest::decode(bytes) else { return };
    let asked = request.ttl;
    keeps_secrets(read_hold(request).map(|ttl| means(asked, ttl)));
}

fn means(asked: Option<prost_types::Duration>, ttl: Option<Duration>) {
    let asked = asked.map(|asked| Duration::try_from(asked).unwrap());
    assert_eq!(asked, ttl);
}

fn keeps_secrets(read: Result<(), tenure_server::Failure>) {
    if let Err(failure) = read {
        assert_eq!(failure.code, Code::Invalid, "{failure}");
        assert!(!failure.message.contains(SECRET), "{failure}");
    }
}

fn again<M: Message + Default + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(read) = M::decode(bytes) {
        let written = read.encode_to_vec();
        assert_eq!(written.len(), read.encoded_len());
        assert_eq!(M::decode(&*written), Ok(read));
    }
}

//! Etcd's answers, for the fuzz targets.

use prost::Message;

pub use super::change::fuzzing::{EtcdReader, EtcdStanding, etcd_counts, etcd_granted};
pub use super::probe::fuzzing::etcd_version;
pub use super::watcher::fuzzing::EtcdWaiters;
use super::wire::{
    AuthenticateResponse, LeaseGrantResponse, LeaseKeepAliveResponse, LeaseTimeToLiveResponse,
    MemberListResponse, RangeResponse, StatusResponse, TxnResponse, WatchResponse,
};

/// Reads an answer of one kind and writes it again; `None` when it is none of that kind. Otherwise
/// what was written, and whether it reads as the same.
#[must_use]
pub fn etcd_answer(kind: u8, bytes: &[u8]) -> Option<(Vec<u8>, bool)> {
    match kind % 9 {
        0 => again::<RangeResponse>(bytes),
        1 => again::<TxnResponse>(bytes),
        2 => again::<LeaseGrantResponse>(bytes),
        3 => again::<LeaseKeepAliveResponse>(bytes),
        4 => again::<LeaseTimeToLiveResponse>(bytes),
        5 => again::<AuthenticateResponse>(bytes),
        6 => again::<StatusResponse>(bytes),
        7 => again::<MemberListResponse>(bytes),
        _ => again::<WatchResponse>(bytes),
    }
}

fn again<M: Message + Default + PartialEq>(bytes: &[u8]) -> Option<(Vec<u8>, bool)> {
    let read = M::decode(bytes).ok()?;
    let written = read.encode_to_vec();
    let is_same = M::decode(&*written).is_ok_and(|again| again == read);
    Some((written, is_same))
}

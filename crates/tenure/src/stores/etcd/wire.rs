//! The few messages of etcd's v3 API that locks need, with the tags of its `rpc.proto` and
//! `kv.proto`. Fields that nobody here reads are left out: a decoder skips them.

use std::fmt;

use prost::{Message, Oneof};

use crate::effect::Effect;

/// A request with one answer.
pub(super) trait Call: Message + Clone + 'static {
    const PATH: &'static str;
    /// What it does when it is carried out twice, or when nobody knows whether it was. Without one
    /// that matters, it may be sent again, and to another member.
    const EFFECT: Effect;
    type Answer: Message + Default + 'static;
}

macro_rules! call {
    ($request:ident, $path:literal, $effect:ident, $answer:ident) => {
        impl Call for $request {
            const PATH: &'static str = concat!("/etcdserverpb.", $path);
            const EFFECT: Effect = Effect::$effect;
            type Answer = $answer;
        }
    };
}

call!(RangeRequest, "KV/Range", Read, RangeResponse);
call!(TxnRequest, "KV/Txn", Write, TxnResponse);
call!(LeaseGrantRequest, "Lease/LeaseGrant", Write, LeaseGrantResponse);
call!(LeaseRevokeRequest, "Lease/LeaseRevoke", Write, LeaseRevokeResponse);
// A stream in the API; one request and one answer make it a plain call.
call!(LeaseKeepAliveRequest, "Lease/LeaseKeepAlive", Read, LeaseKeepAliveResponse);
call!(LeaseTimeToLiveRequest, "Lease/LeaseTimeToLive", Read, LeaseTimeToLiveResponse);
call!(AuthenticateRequest, "Auth/Authenticate", Read, AuthenticateResponse);
call!(StatusRequest, "Maintenance/Status", Read, StatusResponse);
call!(MemberListRequest, "Cluster/MemberList", Read, MemberListResponse);

pub(super) const WATCH_PATH: &str = "/etcdserverpb.Watch/Watch";

/// Messages that carry owners, passwords or tokens show nothing of themselves.
macro_rules! secret {
    ($($message:ident),+) => {$(
        impl fmt::Debug for $message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($message)).finish_non_exhaustive()
            }
        }
    )+};
}

secret!(KeyValue, PutRequest, AuthenticateRequest, AuthenticateResponse);

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Header {
    #[prost(int64, tag = "3")]
    pub revision: i64,
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Op", tags = "1, 2, 3")]
    pub request: Option<Op>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum Op {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub range: Option<RangeResponse>,
}

/// "Equal", on the revision of the key's creation or of its last change.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "Target", tags = "5, 6")]
    pub revision: Option<Target>,
}

#[derive(Clone, Copy, PartialEq, Eq, Oneof)]
pub(super) enum Target {
    #[prost(int64, tag = "5")]
    Create(i64),
    #[prost(int64, tag = "6")]
    Mod(i64),
}

impl Compare {
    pub(super) fn equal(key: Vec<u8>, revision: Target) -> Self {
        let target = match revision {
            Target::Create(_) => 1,
            Target::Mod(_) => 2,
        };
        Self { target, key, revision: Some(revision) }
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub id: i64,
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseRevokeResponse {}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseKeepAliveRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseKeepAliveResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseTimeToLiveRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseTimeToLiveResponse {
    #[prost(int64, tag = "3")]
    pub ttl: i64,
    #[prost(int64, tag = "4")]
    pub granted_ttl: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub token: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    #[prost(bool, tag = "10")]
    pub is_learner: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct MemberListRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Member {
    #[prost(bool, tag = "5")]
    pub is_learner: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "WatchOrder", tags = "1, 2")]
    pub order: Option<WatchOrder>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum WatchOrder {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "2")]
    Cancel(WatchCancelRequest),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int32, repeated, tag = "5")]
    pub filters: Vec<i32>,
}

/// The filter that leaves out the events of puts.
pub(super) const NO_PUT: i32 = 0;

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct WatchCancelRequest {
    #[prost(int64, tag = "1")]
    pub watch_id: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchResponse {
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// That something happened is all that a waiter wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Event {}

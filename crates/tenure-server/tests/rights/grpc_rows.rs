//! The rows of the methods over gRPC: the two services of tenure's own, and Dapr's.

use prost::Message;
use tenure_api::dapr_v1::{
    ForceUnlockRequestAlpha2, GetMetadataRequest, LockRequestAlpha2, SetMetadataRequest,
    TryLockRequest, UnlockRequest as DaprUnlockRequest, UnlockRequestAlpha2,
};
use tenure_api::tenure_v1::exchange_call::Call;
use tenure_api::tenure_v1::{
    AgreeRequest, ExchangeCall, ExchangeRequest, ForceReleaseRequest, ForceUnlockRequest,
    GetInfoRequest, GetRequest, HoldRequest, InspectLeaseRequest, ListLeasesRequest, ListRequest,
    ListStoresRequest, LockRequest, ReleaseLeaseRequest, RenewLeaseRequest, RenewRequest,
    StoredGrant, Target, TryAcquireRequest, UnlockRequest, WatchEventsRequest, WatchKeysRequest,
};
use tenure_server::Verb::{Acquire, Admin, Force, List, Read};

use crate::role::Needs::{self, Everywhere, Here, Somewhere};
use crate::row::{Ask, Row, Spot, Words};

const TENURE: Words =
    Words { refused: "PermissionDenied forbidden", stranger: "Unauthenticated unauthenticated" };

/// alpha1 has no details, and a stranger is told the same in both.
const ALPHA1: Words =
    Words { refused: "PermissionDenied ", stranger: "Unauthenticated Unauthorized" };
const ALPHA2: Words = Words { refused: "PermissionDenied ERR_PERMISSION_DENIED", ..ALPHA1 };

fn tenure(
    route: &'static str,
    needs: Needs,
    answer: &'static str,
    message: fn(&Spot) -> Vec<u8>,
) -> Row {
    let namespaces = match needs {
        Here(_) => &["default", "other"][..],
        _ => &["default"],
    };
    Row { route, needs, answer, ask: Ask::Grpc(message), words: TENURE, namespaces }
}

fn dapr(
    route: &'static str,
    needs: Needs,
    answer: &'static str,
    words: Words,
    message: fn(&Spot) -> Vec<u8>,
) -> Row {
    Row { words, namespaces: &["default"], ..tenure(route, needs, answer, message) }
}

fn target(spot: &Spot) -> Option<Target> {
    let (key, namespace) = (spot.key.clone(), spot.namespace.to_owned());
    Some(Target { key, namespace, ..Target::default() })
}

fn second() -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds: 1, nanos: 0 })
}

pub(crate) fn lock_rows() -> Vec<Row> {
    let (acquire, none) = (Here(&[Acquire]), "NotFound not_found");
    vec![
        tenure("/tenure.v1.LockService/Lock", acquire, "done", |spot| {
            LockRequest { target: target(spot), ..LockRequest::default() }.encode_to_vec()
        }),
        tenure("/tenure.v1.LockService/Hold", acquire, "done", |spot| {
            HoldRequest { target: target(spot), ..HoldRequest::default() }.encode_to_vec()
        }),
        tenure("/tenure.v1.LockService/Renew", acquire, none, |spot| {
            RenewRequest { target: target(spot), lock_id: "x".into(), ttl: None }.encode_to_vec()
        }),
        tenure("/tenure.v1.LockService/Unlock", acquire, none, |spot| {
            UnlockRequest { target: target(spot), lock_id: "x".into() }.encode_to_vec()
        }),
        tenure("/tenure.v1.LockService/ForceUnlock", Here(&[Force]), "done", |spot| {
            ForceUnlockRequest { target: target(spot), reason: "x".into() }.encode_to_vec()
        }),
        tenure("/tenure.v1.LockService/Get", Here(&[Read]), none, |spot| {
            GetRequest { target: target(spot) }.encode_to_vec()
        }),
        tenure("/tenure.v1.LockService/List", Here(&[List]), "done", |spot| {
            let namespace = spot.namespace.to_owned();
            ListRequest { namespace, ..ListRequest::default() }.encode_to_vec()
        }),
        tenure("/tenure.v1.LockService/WatchEvents", Here(&[List]), "done", |spot| {
            let namespace = spot.namespace.to_owned();
            WatchEventsRequest { namespace, ..WatchEventsRequest::default() }.encode_to_vec()
        }),
        tenure("/tenure.v1.LockService/ListStores", Everywhere(&[Admin]), "done", |_| {
            ListStoresRequest {}.encode_to_vec()
        }),
    ]
}

fn stored(spot: &Spot) -> String {
    format!("t1/{}/{}", spot.namespace, spot.key)
}

fn grant(spot: &Spot) -> Option<StoredGrant> {
    Some(StoredGrant { key: stored(spot), owner: "x".into(), fence: 0 })
}

pub(crate) fn store_rows() -> Vec<Row> {
    let (acquire, any) = (Here(&[Acquire]), &[Acquire, Read, List]);
    let mut rows = vec![
        tenure("/tenure.v1.StoreService/GetInfo", Somewhere(any), "done", |_| {
            GetInfoRequest::default().encode_to_vec()
        }),
        tenure("/tenure.v1.StoreService/TryAcquire", acquire, "done", |spot| {
            let (key, owner, ttl) = (stored(spot), "x".to_owned(), second());
            TryAcquireRequest { key, owner, ttl, ..TryAcquireRequest::default() }.encode_to_vec()
        }),
        tenure("/tenure.v1.StoreService/RenewLease", acquire, "done", |spot| {
            RenewLeaseRequest { store: String::new(), grant: grant(spot), ttl: second() }
                .encode_to_vec()
        }),
        tenure("/tenure.v1.StoreService/ReleaseLease", acquire, "done", |spot| {
            ReleaseLeaseRequest { store: String::new(), grant: grant(spot) }.encode_to_vec()
        }),
        tenure("/tenure.v1.StoreService/ForceRelease", Here(&[Force]), "done", |spot| {
            let key = stored(spot);
            let reason = "a test".to_owned();
            ForceReleaseRequest { store: String::new(), key, reason }.encode_to_vec()
        }),
        tenure("/tenure.v1.StoreService/InspectLease", Here(&[Read, Acquire]), "done", |spot| {
            let key = stored(spot);
            InspectLeaseRequest { key, ..InspectLeaseRequest::default() }.encode_to_vec()
        }),
        tenure("/tenure.v1.StoreService/ListLeases", Here(&[List]), "done", |spot| {
            let prefix = format!("t1/{}/", spot.namespace);
            ListLeasesRequest { prefix, ..ListLeasesRequest::default() }.encode_to_vec()
        }),
        tenure("/tenure.v1.StoreService/Agree", Here(any), "done", |spot| {
            let (namespace, fingerprint) = (spot.namespace.to_owned(), "x".to_owned());
            AgreeRequest { store: String::new(), namespace, fingerprint }.encode_to_vec()
        }),
    ];
    let watch = |spot: &Spot| {
        let add = vec![stored(spot)];
        WatchKeysRequest { add, ..WatchKeysRequest::default() }.encode_to_vec()
    };
    let path = "/tenure.v1.StoreService/WatchKeys";
    let row = tenure(path, Here(&[Read, Acquire]), "done", watch);
    rows.push(Row { ask: Ask::Watch(watch), ..row });
    rows.extend(exchange_rows());
    rows
}

/// The same calls once more, on a stream.
fn exchange_rows() -> Vec<Row> {
    fn row(verbs: &'static [tenure_server::Verb], call: fn(&Spot) -> Vec<u8>) -> Row {
        let row = tenure("/tenure.v1.StoreService/Exchange", Here(verbs), "done", call);
        Row { ask: Ask::Exchange(call), ..row }
    }
    fn one(call: Call) -> Vec<u8> {
        let calls = vec![ExchangeCall { number: 1, call: Some(call) }];
        ExchangeRequest { calls }.encode_to_vec()
    }
    vec![
        row(&[Acquire], |spot| {
            let (key, owner, ttl) = (stored(spot), "x".to_owned(), second());
            let request = TryAcquireRequest { key, owner, ttl, ..TryAcquireRequest::default() };
            one(Call::TryAcquire(request))
        }),
        row(&[Acquire], |spot| {
            let (grant, ttl) = (grant(spot), second());
            one(Call::RenewLease(RenewLeaseRequest { store: String::new(), grant, ttl }))
        }),
        row(&[Acquire], |spot| {
            let (store, grant) = (String::new(), grant(spot));
            one(Call::ReleaseLease(ReleaseLeaseRequest { store, grant }))
        }),
        row(&[Read, Acquire], |spot| {
            let request = InspectLeaseRequest { key: stored(spot), ..Default::default() };
            one(Call::InspectLease(request))
        }),
    ]
}

pub(crate) fn dapr_rows() -> Vec<Row> {
    let (acquire, none) = (Here(&[Acquire]), "NotFound ERR_LOCK_NOT_FOUND");
    let lock = |spot: &Spot| {
        let (store_name, resource_id) = ("main".to_owned(), spot.key.clone());
        LockRequestAlpha2 { store_name, resource_id, ..Default::default() }.encode_to_vec()
    };
    vec![
        dapr("/dapr.proto.runtime.v1.Dapr/TryLockAlpha1", acquire, "done", ALPHA1, |spot| {
            let (store_name, resource_id) = ("main".to_owned(), spot.key.clone());
            let (lock_owner, expiry_in_seconds) = ("x".to_owned(), 5);
            TryLockRequest { store_name, resource_id, lock_owner, expiry_in_seconds }
                .encode_to_vec()
        }),
        dapr("/dapr.proto.runtime.v1.Dapr/UnlockAlpha1", acquire, "done", ALPHA1, |spot| {
            let (store_name, resource_id) = ("main".to_owned(), spot.key.clone());
            DaprUnlockRequest { store_name, resource_id, lock_owner: "x".into() }.encode_to_vec()
        }),
        dapr("/dapr.proto.runtime.v1.Dapr/LockAlpha2", acquire, "done", ALPHA2, lock),
        dapr("/dapr.proto.runtime.v1.Dapr/LockStreamAlpha2", acquire, "done", ALPHA2, lock),
        dapr("/dapr.proto.runtime.v1.Dapr/UnlockAlpha2", acquire, none, ALPHA2, |spot| {
            let (store_name, resource_id) = ("main".to_owned(), spot.key.clone());
            UnlockRequestAlpha2 { store_name, resource_id, lock_id: "x".into() }.encode_to_vec()
        }),
        dapr(
            "/dapr.proto.runtime.v1.Dapr/ForceUnlockAlpha2",
            Here(&[Force]),
            "done",
            ALPHA2,
            |s| {
                let (store_name, resource_id) = ("main".to_owned(), s.key.clone());
                let reason = "x".to_owned();
                ForceUnlockRequestAlpha2 { store_name, resource_id, reason }.encode_to_vec()
            },
        ),
        dapr(
            "/dapr.proto.runtime.v1.Dapr/GetMetadata",
            Somewhere(&[Acquire, Read, List]),
            "done",
            ALPHA1,
            |_| GetMetadataRequest {}.encode_to_vec(),
        ),
        dapr("/dapr.proto.runtime.v1.Dapr/SetMetadata", acquire, "done", ALPHA1, |spot| {
            SetMetadataRequest { key: spot.key.clone(), value: "x".into() }.encode_to_vec()
        }),
    ]
}

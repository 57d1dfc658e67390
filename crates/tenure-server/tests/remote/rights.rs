//! Every call of the store service goes through the same rights and limits as the API.

use std::time::Duration;

use tenure::claim::{Attempt, Claim, Eviction, Grant, ListQuery, Pledge, Renewal};
use tenure::{ErrorKind, Namespace, Store};
use tenure_api::Code;
use tenure_server::api::{Order, Place};
use tenure_server::{Caller, Grants, Identity, Verb};

use crate::stage::{Stage, claim, key, token};

const ALL: [&str; 5] = ["acquire", "read", "list", "force", "admin"];

/// What a caller may do with a key, in words.
async fn allowed(store: &dyn Store, stored: &str) -> Vec<&'static str> {
    let Claim { key, owner, ttl, .. } = claim(stored, "somebody");
    let grant = Grant { key: key.clone(), owner, fence: None };
    let prefix = stored.rsplit_once('/').map_or("", |(prefix, _)| prefix);
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    let query = ListQuery { prefix, after: None, limit: 10 };
    let renewal = Renewal { grant: grant.clone(), ttl };
    let eviction = Eviction::new(key.clone(), "a test").unwrap();
    let outcomes = [
        ("try_acquire", store.try_acquire(&claim(stored, "somebody")).await.map(drop)),
        ("renew", store.renew(&renewal).await.map(drop)),
        ("release", store.release(&grant).await.map(drop)),
        ("inspect", store.inspect(&key).await.map(drop)),
        ("watch", store.watch(&key).await.map(drop)),
        ("list", store.list(&query).await.map(drop)),
        ("force", store.force_release(&eviction).await.map(drop)),
    ];
    let mut may = Vec::new();
    for (call, outcome) in outcomes {
        match outcome {
            Ok(()) => may.push(call),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Denied, "{call}: {error}"),
        }
    }
    may
}

#[tokio::test]
async fn each_verb_allows_its_calls_where_it_was_granted_and_nothing_else() {
    let mut config = String::new();
    for verb in ALL {
        let grants = format!("[{{ namespace = 'a', verbs = ['{verb}'] }}]");
        config.push_str(&token(verb, &grants));
    }
    let stage = Stage::with(&config).await;
    for (verb, may) in [
        ("acquire", &["try_acquire", "renew", "release", "inspect", "watch"][..]),
        ("read", &["inspect", "watch"]),
        ("list", &["list"]),
        ("force", &["force"]),
        ("admin", &[]),
    ] {
        let opened = stage.store(&format!("?token={verb}")).await;
        if matches!(verb, "force" | "admin") {
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::Denied, "{verb} has no use for it");
            continue;
        }
        let store = opened.unwrap();
        assert_eq!(allowed(&*store, "t1/a/k").await, may, "{verb}");
        assert_eq!(allowed(&*store, "t1h/a/k").await, may, "{verb}, hashed");
        for elsewhere in ["t1/b/k", "t1/ab/k", "k", "t2/a/k", "t1/a"] {
            assert!(allowed(&*store, elsewhere).await.is_empty(), "{verb} on {elsewhere}");
        }
        let agrees = |name: &str| Pledge {
            namespace: Namespace::new(name).unwrap(),
            fingerprint: "x".into(),
        };
        assert!(store.agree(&agrees("a")).await.is_ok());
        assert_eq!(store.agree(&agrees("b")).await.unwrap_err().kind(), ErrorKind::Denied);
    }
}

#[tokio::test]
async fn raw_keys_need_the_right_on_every_namespace() {
    let grants = "[{ namespace = '*', verbs = ['acquire', 'list', 'force'] }]";
    let stage = Stage::with(&token("all", grants)).await;
    let store = stage.store("?token=all").await.unwrap();
    assert_eq!(allowed(&*store, "k").await.len(), 7);
    assert_eq!(allowed(&*store, "t1/any/k").await.len(), 7);
}

/// In a store with raw keys all namespaces would be one room.
#[tokio::test]
async fn a_right_in_another_namespace_is_none_on_raw_keys() {
    let sandbox = "[{ namespace = 'sandbox', verbs = ['acquire', 'read', 'list', 'force'] }]";
    let raw = "[stores.raw]\nurl = 'memory:'\nraw_keys = true\n";
    let stage = Stage::with(&format!("default_store = 'main'\n{}{raw}", token("s", sandbox))).await;
    let store = stage.store("/raw?token=s").await.unwrap();
    assert!(allowed(&*store, "t1/sandbox/k").await.is_empty(), "there it is a key like others");
    let store = stage.store("?token=s").await.unwrap();
    assert_eq!(allowed(&*store, "t1/sandbox/k").await.len(), 7);

    let api = stage.running.api();
    let verbs = Verb::ALL.to_vec();
    let grants = [Grants { namespace: "sandbox".into(), verbs }];
    let sandbox =
        Caller { identity: Identity { name: "s".into(), grants: grants.into() }, peer: None };
    let root = Caller { identity: Identity::unrestricted("root"), peer: None };
    let at = |namespace: &str| Place {
        store: "raw".into(),
        namespace: namespace.into(),
        key: "k".into(),
    };
    let order = Order { place: at("default"), ..Order::default() };
    api.lock(&root, &order).await.unwrap();
    for caller in [&sandbox, &root] {
        let elsewhere = at("sandbox");
        let order = Order { place: elsewhere.clone(), immediate: true, ..Order::default() };
        let codes = [
            api.force_unlock(caller, &elsewhere, "test").await.map(drop),
            api.lock(caller, &order).await.map(drop),
            api.get(caller, &elsewhere).await.map(drop),
            api.list(caller, &elsewhere, None, None).await.map(drop),
            api.events(caller, &elsewhere).await.map(drop),
        ]
        .map(|outcome| outcome.unwrap_err().code);
        assert_eq!(codes, [Code::NoSuchPlace; 5]);
        assert_eq!(api.get(&root, &at("")).await.unwrap().status.key.as_str(), "k");
    }
}

#[tokio::test]
async fn a_stranger_is_turned_away() {
    let stage = Stage::with(&token("known", "[]")).await;
    for query in ["", "?token=unknown", "?token=known"] {
        let error = stage.store(query).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{query}: {error}");
        assert!(!error.to_string().contains("unknown?"));
    }
}

#[tokio::test]
async fn what_is_out_of_bounds_is_refused_with_field_limit_and_size() {
    let stage = Stage::new().await;
    let store = stage.store("").await.unwrap();
    let can = &store.info().capabilities;
    assert_eq!(can.ttl_min, Duration::from_millis(100), "the server's limit");
    let refused = async |claim: Claim| {
        let error = store.try_acquire(&claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        error.to_string()
    };
    let brief = Claim { ttl: Duration::from_millis(99), ..claim("t1/default/k", "o") };
    let text = refused(brief).await;
    assert!(text.contains("ttl") && text.contains("100ms") && text.contains("99ms"), "{text}");
    let long = Claim { ttl: Duration::from_secs(86_401), ..claim("t1/default/k", "o") };
    assert!(refused(long).await.contains("86401"));
    let longest = format!("t1/default/{}", "x".repeat(1013));
    assert!(matches!(store.try_acquire(&claim(&longest, "o")).await, Ok(Attempt::Granted(_))));
    assert!(store.inspect(&key("t1/default/k")).await.unwrap().is_none(), "nothing was granted");
}

//! The class that a live configuration is worth.

use tenure::store::Class;
use tenure_testkit::servers::redis::start_redis;

use crate::stage::{ask, open, raw, sure, url};

#[tokio::test]
async fn one_server_that_loses_nothing_is_fenced() {
    let server = sure();
    let store = open(url(&server)).await;
    let info = store.info();
    assert_eq!((info.class, info.name), (Class::Fenced, "redis"));
    assert!(info.capabilities.durable && info.capabilities.shared && info.capabilities.wakes);
    assert!(info.findings.iter().any(|finding| finding.topic == "version"), "{info:?}");
    let clock = info.findings.iter().find(|finding| finding.topic == "clock").unwrap();
    assert!(clock.to_string().contains("less than 1 %"), "{clock}");
}

#[tokio::test]
async fn what_may_lose_a_grant_lowers_the_class() {
    let sure = ["--appendonly", "yes", "--appendfsync", "always"];
    for (more, topic) in [
        (&["--appendfsync", "everysec"][..], "appendfsync"),
        (&["--appendonly", "no"], "appendonly"),
        (&["--no-appendfsync-on-rewrite", "yes"], "no-appendfsync-on-rewrite"),
        (&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"], "maxmemory-policy"),
        (&["--rename-command", "CONFIG", ""], "appendfsync"),
    ] {
        let server = start_redis(&[&sure, more].concat()).unwrap();
        let store = open(url(&server)).await;
        let info = store.info();
        assert_eq!(info.class, Class::Efficiency, "{topic}");
        let finding = info.findings.iter().find(|finding| finding.topic == topic).unwrap();
        assert!(finding.remedy.is_some(), "{finding}");
        assert_eq!(info.capabilities.durable, topic != "appendonly");
    }
}

#[tokio::test]
async fn a_replica_is_refused_and_lowers_its_primary() {
    let primary = sure();
    let port = primary.address().port().to_string();
    let replica = start_redis(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let mut raw = raw(primary.address()).await;
    tenure_testkit::wait::until("the replica to connect", crate::stage::SOON, || {
        let mut raw = raw.clone();
        async move {
            Ok(ask::<String>(&mut raw, &["INFO", "replication"]).await.contains("state=online"))
        }
    })
    .await
    .unwrap();
    let (error, text) = crate::stage::refused(url(&replica)).await;
    assert_eq!(error.kind(), tenure::ErrorKind::Unavailable);
    assert!(text.contains("read-only replica") && text.contains("name the primary"), "{text}");
    let store = open(url(&primary)).await;
    assert_eq!(store.info().class, Class::Efficiency);
    let mut findings = store.info().findings.iter();
    let replication = findings.find(|finding| finding.topic == "replication").unwrap();
    assert!(replication.text.contains("unless the clock of that replica is behind"));
    let _: String = ask(&mut raw, &["PING"]).await;
}

//! Credentials, permissions and TLS: what fits works, what does not is said.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tenure::{ErrorKind, Locks};
use tenure_testkit::servers::nats::{Nats, Recipe, Release};
use tenure_testkit::wait::bounded;

use crate::raw::{
    AT_ONCE, SOON, as_ann, documented_permissions, ms, never_looks, open, refusal, take, url,
    with_user,
};

async fn full_cycle(url: &str) {
    let locks = never_looks().open(url).await.unwrap();
    let guard = locks.lock("order:123").acquire().await.unwrap();
    let listed: Vec<_> = futures_util::StreamExt::collect(locks.list("")).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    locks.renew("order:123", guard.owner(), ms(60_000)).await.unwrap();
    let other = never_looks().open(url).await.unwrap();
    let next = tokio::spawn({
        let request = other.lock("order:123").wait(ms(20_000));
        async move { request.acquire().await }
    });
    tenure_testkit::wait::until("the other to wait", SOON, || async {
        Ok(other.waiters("order:123") == 1)
    })
    .await
    .unwrap();
    tenure_testkit::wait::sleep(ms(300)).await;
    guard.release().await.unwrap();
    let next = bounded("to be woken", SOON, next).await.unwrap().unwrap().unwrap();
    locks.force_release("order:123", "test").await.unwrap();
    drop(next);
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    for release in [Release::Newest, Release::Old] {
        full_cycle(&as_ann(&with_user(release, &documented_permissions()))).await;
    }
}

#[tokio::test]
async fn a_missing_permission_is_told_at_once() {
    let all = documented_permissions();
    for missing in ["STREAM.INFO", "STREAM.CREATE"] {
        let lines = all.lines().filter(|line| !line.contains(missing)).collect::<Vec<_>>();
        let server = with_user(Release::Newest, &lines.join("\n"));
        let refused = bounded("the refusal", AT_ONCE, refusal(&as_ann(&server))).await.unwrap();
        assert_eq!(refused.0, ErrorKind::Denied);
        assert!(refused.1.contains(missing), "{}", refused.1);
    }
    for missing in ["STREAM.MSG.GET", "$KV"] {
        let lines = all.lines().filter(|line| !line.contains(missing)).collect::<Vec<_>>();
        let server = with_user(Release::Newest, &lines.join("\n"));
        let store = open(&as_ann(&server)).await.unwrap();
        let claim = crate::raw::claim("k", ms(5000));
        let error = bounded("the refusal", AT_ONCE, store.try_acquire(&claim)).await.unwrap();
        let error = error.expect_err("granted");
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(missing), "{error}");
    }
}

/// Without the permission to be woken, waiters poll.
#[tokio::test]
async fn waiters_poll_where_they_may_not_be_woken() {
    let all = documented_permissions();
    let lines = all.lines().filter(|line| !line.contains("CONSUMER")).collect::<Vec<_>>();
    let server = with_user(Release::Newest, &lines.join("\n"));
    let (one, two) = (as_ann(&server), as_ann(&server));
    let (one, two) = (Locks::open(&one).await.unwrap(), Locks::open(&two).await.unwrap());
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let request = two.lock("k").wait(ms(20_000));
        async move { request.acquire().await }
    });
    tenure_testkit::wait::sleep(ms(300)).await;
    guard.release().await.unwrap();
    let polled = bounded("the poll", ms(15_000), waiter).await.unwrap().unwrap().unwrap();
    assert!(polled.is_held());
}

#[tokio::test]
async fn wrong_credentials_are_denied_and_not_repeated() {
    let password = with_user(Release::Newest, "");
    let recipe = Recipe::new(Release::Newest).with("authorization { token: s3cret }");
    let token = Nats::start(&recipe).unwrap();
    open(&as_ann(&password)).await.unwrap();
    open(&url(&token).replace("nats://", "nats://s3cret@")).await.unwrap();
    for wrong in [
        url(&password),
        url(&password).replace("nats://", "nats://ann:canary@"),
        url(&token).replace("nats://", "nats://canary@"),
    ] {
        let (kind, text) = refusal(&wrong).await;
        assert_eq!(kind, ErrorKind::Denied);
        assert!(text.contains("credentials") && !text.contains("canary"), "{text}");
    }
}

#[tokio::test]
async fn tls_trusts_the_named_authority_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let authority = || {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (right, wrong) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let cert = CertificateParams::new(names).unwrap().signed_by(&key, &right).unwrap();
    fs::write(path("right.pem"), right.pem()).unwrap();
    fs::write(path("wrong.pem"), wrong.pem()).unwrap();
    fs::write(path("cert.pem"), cert.pem()).unwrap();
    fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    let tls =
        format!("tls {{ cert_file: {:?}, key_file: {:?} }}", path("cert.pem"), path("key.pem"));
    let server = Nats::start(&Recipe::new(Release::Newest).with(&tls)).unwrap();
    let secure = url(&server).replace("nats://", "nats+tls://");
    let trusting = |ca: &str| format!("{secure}&ca={}", path(ca).display());
    let store = open(&trusting("right.pem")).await.unwrap();
    take(&*store, "k", ms(5000)).await;
    for untrusted in [trusting("wrong.pem"), secure.clone()] {
        let (kind, text) = refusal(&untrusted).await;
        assert_eq!(kind, ErrorKind::Denied);
        assert!(text.contains("certificate is not trusted"), "{text}");
    }
    let (kind, text) = refusal(&trusting("nowhere.pem")).await;
    assert!(kind == ErrorKind::Invalid && text.contains("option ca"), "{text}");
    let plain = crate::raw::newest();
    let (_, text) = refusal(&url(&plain).replace("nats://", "nats+tls://")).await;
    assert!(text.contains("TLS") || text.contains("does not answer"), "{text}");
}

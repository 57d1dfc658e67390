//! Users, roles and TLS.

use std::path::Path;

use tenure::ErrorKind;
use tenure_testkit::servers::etcd::{alone, calls, etcdctl};
use tenure_testkit::servers::free_port;
use tenure_testkit::wait::{bounded, sleep};

use crate::stage::{SOON, locks, ms, never_looks, open, url, waiter};

#[tokio::test]
async fn users_and_roles() {
    // Tokens live for a second, so that they go stale within the test.
    let server = alone(&["--auth-token-ttl=1"]).unwrap();
    for arguments in [
        ["user", "add", "root:top"].as_slice(),
        &["user", "grant-role", "root", "root"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "--prefix=true", "readwrite", "tenure/"],
        &["user", "add", "app:secret"],
        &["user", "grant-role", "app", "locks"],
        &["user", "add", "guest:secret"],
        &["auth", "enable"],
    ] {
        // The role of root is made by some versions only when authentication is enabled.
        let outcome = etcdctl(&server, arguments);
        assert!(outcome.is_ok() || arguments[1] == "grant-role", "{outcome:?}");
    }
    let as_user = |login: &str| format!("etcd://{login}@{}", server.address());
    for (login, kind, word) in [
        ("app:wrong", ErrorKind::Denied, "password"),
        ("nobody:secret", ErrorKind::Denied, "password"),
        ("guest:secret", ErrorKind::Denied, "readwrite"),
    ] {
        let error = open(&as_user(login)).await.unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(word), "{login}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let error = open(&url(&server)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("login"), "{error}");
    let elsewhere = format!("{}/elsewhere", as_user("app:secret"));
    assert_eq!(open(&elsewhere).await.unwrap_err().kind(), ErrorKind::Denied);

    let (holder, waiting) =
        (locks(&as_user("app:secret")).await, never_looks(&as_user("app:secret")).await);
    let guard = holder.lock("k").ttl(ms(2000)).acquire().await.unwrap();
    let logins = calls(&server, "Authenticate").unwrap();
    let first = waiter(&server, &waiting).await;
    sleep(ms(3000)).await;
    assert!(guard.is_held(), "a stale token cost the lock");
    guard.release().await.unwrap();
    let guard = bounded("the waiter to be woken", SOON, first).await.unwrap().unwrap().unwrap();
    // The stream of watches still has its first token; another key needs a new watch.
    sleep(ms(2500)).await;
    let other = holder.lock("other").acquire().await.unwrap();
    let request = waiting.lock("other").wait(SOON);
    let second = tokio::spawn(async move { request.acquire().await });
    sleep(ms(1000)).await;
    other.release().await.unwrap();
    let woken = bounded("the other waiter to be woken", SOON, second).await.unwrap();
    woken.unwrap().unwrap().release().await.unwrap();
    assert!(calls(&server, "Authenticate").unwrap() > logins, "no token went stale");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn tls_with_the_right_and_the_wrong_authority() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| std::fs::write(Path::new(&file(name)), text).unwrap();
    for (authority, name) in [("ca.pem", "localhost"), ("other.pem", "other")] {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        write(authority, &cert.pem());
        write(&format!("{authority}.key"), &signing_key.serialize_pem());
    }
    let metrics = free_port().unwrap();
    let server = alone(&[
        &format!("--cert-file={}", file("ca.pem")),
        &format!("--key-file={}", file("ca.pem.key")),
        &format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"),
    ])
    .unwrap();
    let port = server.address().port();
    let good = format!("etcds://127.0.0.1:{port}?ca={}&server_name=localhost", file("ca.pem"));
    locks(&good).await.lock("k").acquire().await.unwrap().release().await.unwrap();
    let untrusted = ErrorKind::Denied;
    for (bad, kind, word) in [
        (format!("etcds://localhost:{port}?ca={}", file("other.pem")), untrusted, "certificate"),
        (format!("etcds://127.0.0.1:{port}?ca={}", file("ca.pem")), untrusted, "certificate"),
        (format!("etcds://localhost:{port}"), untrusted, "certificate"),
        (format!("etcd://localhost:{port}"), ErrorKind::Unavailable, "etcds:"),
    ] {
        let error = bounded("the refusal", SOON, open(&bad)).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.to_string().contains(word), "{bad}: {error:?}");
    }
    for (wrong, word) in [
        (format!("etcds://localhost:{port}?ca=/none.pem"), "option ca"),
        (format!("etcds://localhost:{port}?cert={}", file("ca.pem")), "together"),
        (format!("etcd://localhost:{port}?ca={}", file("ca.pem")), "etcds:"),
    ] {
        let error = open(&wrong).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(word), "{error}");
    }
}

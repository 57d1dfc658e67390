//! No secret that comes in comes out again: not in an answer, not in the log at its most talkative,
//! not in the metrics, not in the audit log.

mod forrst;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tenure_api::dapr_v1::dapr_client::DaprClient;
use tenure_api::dapr_v1::{
    ForceUnlockRequestAlpha2, LockRequestAlpha2, TryLockRequest,
    UnlockRequest as DaprUnlockRequest, UnlockRequestAlpha2,
};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::store_service_client::StoreServiceClient;
use tenure_api::tenure_v1::{
    ForceUnlockRequest, HoldRequest, InspectLeaseRequest, LockRequest, ReleaseLeaseRequest,
    RenewLeaseRequest, RenewRequest, StoredGrant, TryAcquireRequest, UnlockRequest,
};
use tenure_api::time::to_wire;
use tonic::Request;
use tonic::transport::Channel;

use super::process::{Server, target, token};

/// What no text may hold.
pub(crate) const TOKEN: &str = "canary-token-5f1e";
const LOCK_ID: &str = "canary-lock-id-9a2b";
pub(crate) const OWNER: &str = "canary-owner-77c0";
const DAPR_OWNER: &str = "canary-dapr-owner-31d4";
const KEY_SECRET: &str = "canary-key-secret-e8f2";
const PASSWORD: &str = "canary-password-b05e";

const ALL: &str = "[{ namespace = '*', verbs = ['acquire', 'read', 'list', 'force', 'admin'] }]";

#[track_caller]
pub(crate) fn is_silent(said: &str) {
    let found = said.lines().find(|line| line.contains("canary"));
    assert_eq!(found, None, "a secret came out");
}

/// The server, with an audit log of everything and keys that are hashed.
pub(crate) fn server(folder: &Path) -> Server {
    server_with(folder, "")
}

/// The same, with more sections.
fn server_with(folder: &Path, more: &str) -> Server {
    fs::write(folder.join("key-secret"), KEY_SECRET).unwrap();
    let folder_text = folder.display();
    let config = format!(
        "[stores.main]\nurl = 'file:{folder_text}/locks.db'\nkey_secret_file = \
         '{folder_text}/key-secret'\n[audit]\nfile = '{folder_text}/audit.jsonl'\nreads = true\n\
         {more}\n{}",
        token("a", TOKEN, ALL)
    );
    Server::configured(folder, &config, &[])
}

/// All that the server wrote, apart from its answers.
pub(crate) fn written(server: &Server, folder: &Path) -> String {
    server.log() + &fs::read_to_string(folder.join("audit.jsonl")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_client_of_http_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    server.channel().await;
    let id = format!(r#"{{"lock_id": "{LOCK_ID}"}}"#);
    let bearer = format!("authorization: Bearer {TOKEN}");
    let wrong = format!("authorization: Bearer {TOKEN}x");
    let basic = format!("authorization: {TOKEN}");
    let dapr = format!("dapr-api-token: {TOKEN}");
    let header = format!("tenure-lock-id: {LOCK_ID}");
    let other = format!("tenure-lock-id: {LOCK_ID}x");
    let broken = format!(r#"{{"lock_id": "{LOCK_ID}", "nonsense": "{LOCK_ID}"}}"#);
    let cut = format!(r#"{{"lock_id": "{LOCK_ID}"#);
    let typed = format!(r#"{{"lock_id": ["{LOCK_ID}"]}}"#);
    let owner =
        format!(r#"{{"resourceId": "r", "lockOwner": "{DAPR_OWNER}", "expiryInSeconds": 60}}"#);
    let endless = owner.replace("60", "99999999");
    let dapr_cut = &owner[..owner.len() - 30];
    let dapr_id = format!(r#"{{"lockID": "{DAPR_OWNER}"}}"#);
    let dapr_typed = format!(r#"{{"lockID": {{"{DAPR_OWNER}": 1}}}}"#);
    let (lock, unlock) = ("/v1.0-alpha1/lock/main", "/v1.0-alpha1/unlock/main");
    let alpha2 = "/v1.0-alpha2/lock/main/r2";
    let cases: &[(&str, &str, &[&str])] = &[
        ("POST", "/v1/locks/k", &["-H", &bearer, "--data", &id]),
        ("POST", "/v1/locks/k", &["-H", &dapr, "--data", &id]),
        ("POST", "/v1/locks/k", &["-H", &bearer, "--data", r#"{"immediate": true}"#]),
        ("POST", "/v1/locks/k", &["-H", &bearer, "--data", &broken]),
        ("POST", "/v1/locks/k", &["-H", &bearer, "--data", &cut]),
        ("POST", "/v1/locks/k", &["-H", &bearer, "--data", &typed]),
        ("POST", "/v1/locks/k", &["-H", &wrong, "--data", &id]),
        ("POST", "/v1/locks/k", &["-H", &basic, "--data", &id]),
        ("GET", "/v1/locks/k", &["-H", &bearer]),
        ("GET", "/v1/locks", &["-H", &bearer]),
        ("PATCH", "/v1/locks/k", &["-H", &bearer, "-H", &header, "--data", "{}"]),
        ("PATCH", "/v1/locks/k", &["-H", &bearer, "-H", &other, "--data", &id]),
        ("PATCH", "/v1/locks/none", &["-H", &bearer, "--data", &id]),
        ("DELETE", "/v1/locks/k", &["-H", &bearer, "-H", &other]),
        ("DELETE", "/v1/locks/k", &["-H", &bearer, "-H", &header]),
        ("POST", lock, &["-H", &dapr, "--data", &owner]),
        ("POST", lock, &["-H", &dapr, "--data", &owner]),
        ("POST", lock, &["-H", &dapr, "--data", &endless]),
        ("POST", lock, &["-H", &dapr, "--data", dapr_cut]),
        ("POST", unlock, &["-H", &dapr, "--data", &owner.replace(DAPR_OWNER, "canary-x")]),
        ("POST", unlock, &["-H", &dapr, "--data", &owner]),
        ("POST", unlock, &["-H", &dapr, "--data", &owner]),
        ("POST", unlock, &["-H", &wrong, "--data", &owner]),
        ("DELETE", alpha2, &["-H", &dapr, "--data", &dapr_id]),
        ("DELETE", alpha2, &["-H", &dapr, "--data", &dapr_typed]),
        ("GET", "/v1.0/metadata", &["-H", &dapr]),
        ("GET", "/metrics", &["-H", &bearer]),
        ("GET", "/v1/stores", &["-H", &bearer]),
    ];
    let mut said = String::new();
    for (method, path, more) in cases {
        let answer = server.curl(path, &[&["-X", method], *more].concat());
        // Whoever chose the lock id is told it back with the grant.
        let granted = answer.contains("\"ttl_ms\"") && answer.contains("\"lock_id\"");
        said += if granted { "granted" } else { &answer };
        said.push('\n');
    }
    for part in ["granted", "wrong_owner", "unauthenticated", "invalid", "ERR_TRY_LOCK"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(said.matches(r#"{"status":"#).count(), 3, "{said}");
    is_silent(&(said + &written(&server, folder.path())));
}

/// With the token of the test.
fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let bearer = format!("Bearer {TOKEN}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}

/// What a call answered, in words; a lock id that was granted is the caller's to see.
fn told<T: std::fmt::Debug>(answer: Result<tonic::Response<T>, tonic::Status>) -> String {
    match answer {
        Ok(answer) => format!("{:?}\n", answer.into_inner()).replace(LOCK_ID, "(granted)"),
        Err(status) => format!("{status:?}\n"),
    }
}

async fn ask_locks(channel: Channel) -> String {
    let mut locks = LockServiceClient::new(channel);
    let lock = LockRequest { target: target("k"), ..LockRequest::default() };
    let mut said = String::new();
    for lock_id in [LOCK_ID, LOCK_ID, "canary-another"] {
        let (lock_id, immediate) = (lock_id.to_owned(), true);
        said +=
            &told(locks.lock(request(LockRequest { lock_id, immediate, ..lock.clone() })).await);
    }
    for id in ["canary-wrong", LOCK_ID, LOCK_ID] {
        let renew = RenewRequest { target: target("k"), lock_id: id.into(), ttl: None };
        said += &told(locks.renew(request(renew)).await);
        let unlock = UnlockRequest { target: target("k"), lock_id: id.into() };
        said += &told(locks.unlock(request(unlock)).await);
    }
    let hold = HoldRequest { target: target("held"), ..HoldRequest::default() };
    let stream = locks.hold(request(hold)).await.unwrap();
    let force = ForceUnlockRequest { target: target("held"), reason: "test".into() };
    said += &told(locks.force_unlock(request(force)).await);
    drop(stream);
    let mut stranger = Request::new(lock);
    let wrong = format!("Bearer {TOKEN}x").parse().unwrap();
    stranger.metadata_mut().insert("authorization", wrong);
    said + &told(locks.lock(stranger).await)
}

async fn ask_stores(channel: Channel) -> String {
    let mut stores = StoreServiceClient::new(channel);
    let (key, ttl) = ("t1/default/s".to_owned(), Some(to_wire(Duration::from_secs(60))));
    let mut said = String::new();
    for owner in [OWNER, "canary-other-owner"] {
        let claim = TryAcquireRequest {
            key: key.clone(),
            owner: owner.into(),
            ttl,
            holder: "test".into(),
            ..TryAcquireRequest::default()
        };
        said += &told(stores.try_acquire(request(claim)).await);
        let owners = vec![owner.to_owned(), "canary-third".to_owned()];
        let inspect = InspectLeaseRequest { key: key.clone(), owners, ..Default::default() };
        said += &told(stores.inspect_lease(request(inspect)).await);
    }
    for owner in ["canary-other-owner", OWNER, OWNER] {
        let grant = Some(StoredGrant { key: key.clone(), owner: owner.into(), fence: 0 });
        let renew = RenewLeaseRequest { store: String::new(), grant: grant.clone(), ttl };
        said += &told(stores.renew_lease(request(renew)).await);
        let release = ReleaseLeaseRequest { store: String::new(), grant };
        said += &told(stores.release_lease(request(release)).await);
    }
    said
}

async fn ask_dapr(channel: Channel) -> String {
    let mut dapr = DaprClient::new(channel);
    let (store_name, resource_id) = ("main".to_owned(), "d".to_owned());
    let mut said = String::new();
    for expiry_in_seconds in [60, 60, i32::MAX] {
        let lock = TryLockRequest {
            store_name: store_name.clone(),
            resource_id: resource_id.clone(),
            lock_owner: DAPR_OWNER.into(),
            expiry_in_seconds,
        };
        said += &told(dapr.try_lock_alpha1(request(lock)).await);
    }
    for owner in ["canary-other", DAPR_OWNER, DAPR_OWNER] {
        let unlock = DaprUnlockRequest {
            store_name: store_name.clone(),
            resource_id: resource_id.clone(),
            lock_owner: owner.into(),
        };
        said += &told(dapr.unlock_alpha1(request(unlock)).await);
    }
    let lock = LockRequestAlpha2 {
        store_name: store_name.clone(),
        resource_id: resource_id.clone(),
        ..LockRequestAlpha2::default()
    };
    dapr.lock_alpha2(request(lock)).await.unwrap();
    let unlock = UnlockRequestAlpha2 {
        store_name: store_name.clone(),
        resource_id: resource_id.clone(),
        lock_id: DAPR_OWNER.into(),
    };
    said += &told(dapr.unlock_alpha2(request(unlock)).await);
    let force = ForceUnlockRequestAlpha2 { store_name, resource_id, reason: "test".into() };
    said + &told(dapr.force_unlock_alpha2(request(force)).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_client_of_grpc_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let channel = server.channel().await;
    let mut said = ask_locks(channel.clone()).await;
    said += &ask_stores(channel.clone()).await;
    said += &ask_dapr(channel).await;
    for part in ["(granted)", "wrong_owner", "granted: true", "released: true", "success: true"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    is_silent(&(said + &written(&server, folder.path())));
}

/// Runs `tenure serve` with a configuration that it refuses, and returns all that it says.
fn refused(folder: &Path, config: &str, more: &[&str], store: Option<&str>) -> String {
    let path = folder.join("refused.toml");
    fs::write(&path, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--check", "--config", path.to_str().unwrap()])
        .args(more)
        .env_remove("TENURE_STORE")
        .envs(store.map(|url| ("TENURE_STORE", url)))
        .env("XDG_DATA_HOME", folder)
        .env("TENURE_LOG", "trace")
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!output.status.success(), "{config} was taken: {said}");
    said
}

#[test]
fn no_password_of_a_store_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    for url in [
        format!("redis://user:{PASSWORD}@127.0.0.1:1/0"),
        format!("redis+sentinel://127.0.0.1:1/0?service=m&sentinel_password={PASSWORD}"),
        format!("postgres://user:{PASSWORD}@127.0.0.1:1/db"),
        format!("nats://user:{PASSWORD}@127.0.0.1:1"),
        format!("etcd://user:{PASSWORD}@127.0.0.1:1"),
        format!("tenure://127.0.0.1:1?token={PASSWORD}"),
        format!("nonsense://user:{PASSWORD}@127.0.0.1:1"),
        format!("redis://user:{PASSWORD}@[not a host/0"),
    ] {
        let said = refused(folder.path(), &format!("stores.main.url = '{url}'\n"), &[], None);
        assert!(said.contains("main"), "{said}");
        is_silent(&said);
        is_silent(&refused(folder.path(), "", &["--store", &url], None));
        is_silent(&refused(folder.path(), "", &[], Some(&url)));
    }
}

/// A component for a Redis at this address.
fn component(at: &str) -> String {
    format!(
        "kind: Component\nmetadata: {{name: locks}}\nspec:\n  type: lock.redis\n  metadata:\n  \
         - {{name: redisHost, value: '{at}'}}\n  - {{name: redisPassword, value: {PASSWORD}}}\n"
    )
}

#[test]
fn no_password_of_a_component_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let components = folder.path().join("components");
    fs::create_dir(&components).unwrap();
    let component = component("127.0.0.1:1");
    for text in [
        component.clone(),
        component.replace("name: redisPassword", "name: redisPassword, nonsense"),
        component.replace(&format!("value: {PASSWORD}"), &format!("value: [{PASSWORD}]")),
        component.replace(&format!("value: {PASSWORD}"), &format!("value: '{PASSWORD}")),
        component.replace("redisPassword", "redisDB"),
        component.replace("redisPassword", "useEntraID"),
    ] {
        fs::write(components.join("locks.yaml"), &text).unwrap();
        let arguments = ["--dapr-components", components.to_str().unwrap()];
        let said = refused(folder.path(), "", &arguments, None);
        assert!(said.contains("locks"), "{said}");
        is_silent(&said);
    }
}

#[test]
fn no_secret_of_the_configuration_comes_out_with_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("short"), "canary").unwrap();
    let short = folder.path().join("short");
    for config in [
        format!("stores.main.url = ['redis://:{PASSWORD}@127.0.0.1']\n"),
        format!("stores.main.url = 'redis://:{PASSWORD}@127.0.0.1\n"),
        format!("stores.main = 'redis://:{PASSWORD}@127.0.0.1'\n"),
        format!("stores.main.url = 'memory:'\n[[tokens]]\nname = 'a'\nsha256 = '{TOKEN}'\n"),
        format!("stores.main.url = 'memory:'\n[[tokens]]\nname = 'a'\ntoken = '{TOKEN}'\n"),
        format!("stores.main.url = 'memory:'\ntokens = ['{TOKEN}']\n"),
        format!("stores.main = {{ url = 'memory:', key_secret_file = '{}' }}\n", short.display()),
        format!("stores.main.url = 'memory:'\napp_health.url = 'http://u:{PASSWORD}@127.0.0.1'\n"),
        format!("stores.main.url = 'memory:'\napp_health.url = 'https://u:{PASSWORD}@127.0.0.1'\n"),
        format!("stores.main.url = 'memory:'\ntrace.otlp = 'nonsense {PASSWORD}'\n"),
        format!("stores.main.url = 'memory:'\ntrace.otlp = 'http://u:{PASSWORD}@127.0.0.1:1'\n"),
    ] {
        is_silent(&refused(folder.path(), &config, &[], None));
    }
}

/// Passwords that are right, while the store works and after it has gone.
#[cfg(feature = "servers")]
#[tokio::test(flavor = "multi_thread")]
async fn no_password_in_use_comes_out() {
    let redis = tenure_testkit::servers::redis::start_redis(&["--requirepass", PASSWORD]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let components = folder.path().join("components");
    fs::create_dir(&components).unwrap();
    let (at, folder_text) = (redis.address(), folder.path().display());
    fs::write(components.join("locks.yaml"), component(&at.to_string())).unwrap();
    let config = format!(
        "default_store = 'main'\nstores.main.url = 'redis://:{PASSWORD}@{at}/1'\n[dapr]\n\
         components = '{folder_text}/components'\n[audit]\nfile = '{folder_text}/audit.jsonl'\n"
    );
    let server = Server::configured(folder.path(), &config, &[]);
    server.channel().await;
    let mut said = String::new();
    for is_there in [true, false] {
        for store in ["main", "locks"] {
            let path = format!("/v1/locks/{is_there}?store={store}");
            let answer = server.curl(&path, &["--data", r#"{"immediate": true}"#]);
            assert_eq!(answer.contains("lock_id"), is_there, "{answer}");
            said += &answer;
        }
        for path in ["/v1/stores", "/readyz", "/metrics", "/v1.0/metadata"] {
            said += &server.curl(path, &[]);
        }
        redis.kill().unwrap();
    }
    is_silent(&(said + &written(&server, folder.path())));
}

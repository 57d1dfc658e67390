//! Who may in, and what is said to those who may not.

use std::sync::Arc;

use tenure::claim::ListQuery;
use tenure::clock::SystemClock;
use tenure::stores::redis::RedisOptions;
use tenure::{ErrorKind, Locks};
use tenure_testkit::servers::redis::start_redis;
use tenure_testkit::servers::{Server, free_port};
use tenure_testkit::wait::bounded;

use crate::layouts::Cluster;
use crate::stage::{Raw, SOON, ask, cycle, evicting, fast, granted, key, open, raw, refused, url};

/// The command that the documentation tells to give, word by word.
fn documented_acl() -> Vec<String> {
    let page = include_str!("../../../tenure/src/stores/redis/mod.rs");
    let lines = page.lines().map(|line| line.trim_start_matches("//!"));
    let lines = lines.skip_while(|line| !line.contains("ACL SETUSER"));
    let lines = lines.take_while(|line| !line.contains("```"));
    let words = lines.flat_map(str::split_whitespace).filter(|word| *word != "\\");
    words.skip_while(|word| *word != "ACL").map(|word| word.trim_matches('\'').to_owned()).collect()
}

async fn with_user(more: &[&str]) -> (Server, Raw, String) {
    let server = start_redis(&["--databases", "20"]).unwrap();
    let mut raw = raw(server.address()).await;
    let acl = documented_acl();
    let words: Vec<&str> = acl.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let (): () = ask(&mut raw, &words).await;
    let password = acl.iter().find_map(|word| word.strip_prefix('>')).unwrap();
    let url = format!("redis://tenure:{password}@{}/7", server.address());
    (server, raw, url)
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let (_server, mut raw, url) = with_user(&[]).await;
    let locks = Locks::open(&url).await.unwrap();
    let guard = locks.lock("k").acquire().await.unwrap();
    let waiter = {
        let request = locks.lock("k").wait(SOON);
        tokio::spawn(async move { request.acquire().await.unwrap() })
    };
    let renewed =
        locks.renew("k", guard.owner(), std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(renewed.fence, guard.fence());
    let listed: Vec<_> = futures_util::StreamExt::collect(locks.list("")).await;
    assert_eq!(listed.len(), 1);
    guard.release().await.unwrap();
    let next = bounded("the waiter to be woken", SOON, waiter).await.unwrap().unwrap();
    locks.force_release("k", "a test").await.unwrap();
    drop(next);
    let denied: Vec<redis::Value> = ask(&mut raw, &["ACL", "LOG"]).await;
    assert!(denied.is_empty(), "{denied:?}");
}

#[tokio::test]
async fn a_missing_permission_is_told_when_the_store_is_opened() {
    for missing in [
        "-evalsha",
        "-eval",
        "-get",
        "-set",
        "-del",
        "-time",
        "-pttl",
        "-pexpire",
        "-getset",
        "-publish",
        "-subscribe",
        "-scan",
        "-info",
        "-role",
        "-select",
        "-ping",
        "resetchannels",
        "resetkeys",
    ] {
        let (_server, _, url) = with_user(&[missing]).await;
        let (error, text) = refused(&url).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{missing}: {text}");
        assert!(text.contains("ACL"), "{missing}: {text}");
    }
}

/// By another process, which is this test once more: the environment of this one is not touched.
#[tokio::test]
async fn user_and_password_come_from_the_environment() {
    const URL: &str = "TENURE_TEST_REDIS_URL";
    if let Ok(url) = std::env::var(URL) {
        cycle(&*open(url).await, "t1/job").await;
        return;
    }
    let (server, _, _) = with_user(&[">secret-1"]).await;
    let opened = |at: String, variables: &[(&str, &str)]| {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let test = "access::user_and_password_come_from_the_environment";
        program.args([test, "--exact"]).env(URL, at).envs(variables.iter().copied());
        let output = program.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("1 passed") || said.contains("1 failed"), "not run: {said}");
        (output.status.success(), said)
    };
    let at = server.address();
    let both = [("REDIS_USERNAME", "tenure"), ("REDISCLI_AUTH", "secret-1")];
    let (passed, said) = opened(url(&server), &both);
    assert!(passed, "{said}");
    // What the URL says comes first.
    let (passed, said) =
        opened(format!("redis://tenure@{at}"), &[("REDIS_USERNAME", "x"), both[1]]);
    assert!(passed, "{said}");
    let (passed, said) = opened(url(&server), &[both[0], ("REDISCLI_AUTH", "secret-2")]);
    assert!(!passed && said.contains("refuses this user and password"), "{said}");
}

/// Also on a node of a Cluster that is not the first to be asked.
#[tokio::test]
async fn a_missing_permission_on_one_node_of_a_cluster_is_told() {
    let mut cluster = Cluster::start().await;
    let acl = documented_acl();
    let all: Vec<&str> = acl.iter().map(String::as_str).collect();
    for node in 0..3 {
        cluster.tell(node, &all).await;
        cluster.tell(node, &["ACL", "SETUSER", "tenure", "+cluster|slots", "+asking"]).await;
    }
    let at = format!("redis+cluster://tenure:password@{}", cluster.at(0));
    cycle(&*open(&at).await, "t1/job").await;
    for node in 0..3 {
        for (missing, back) in [
            ("-evalsha", "+evalsha"),
            ("-set", "+set"),
            ("-publish", "+publish"),
            ("-subscribe", "+subscribe"),
            ("-scan", "+scan"),
        ] {
            cluster.tell(node, &["ACL", "SETUSER", "tenure", missing]).await;
            let (error, text) = refused(&at).await;
            assert_eq!(error.kind(), ErrorKind::Denied, "{missing} on {node}: {text}");
            assert!(text.contains("ACL"), "{missing} on {node}: {text}");
            cluster.tell(node, &["ACL", "SETUSER", "tenure", back]).await;
        }
    }
    cycle(&*open(&at).await, "t1/job").await;
}

#[tokio::test]
async fn passwords_are_asked_for_and_checked() {
    let server = start_redis(&["--requirepass", "secret-1"]).unwrap();
    let at = server.address();
    let (error, text) = refused(url(&server)).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
    assert!(text.contains("wants a password"), "{text}");
    for wrong in [":secret-2@", "nobody:secret-1@"] {
        let (error, text) = refused(format!("redis://{wrong}{at}")).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
        assert!(text.contains("refuses this user and password"), "{text}");
    }
    let store = open(format!("redis://:secret-1@{at}")).await;
    cycle(&*store, "job").await;
    assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    let options = RedisOptions::new(&url(&server)).unwrap().credentials(None, "secret-1");
    let store = options.database(3).open(Arc::new(SystemClock)).await.unwrap();
    cycle(&store, "job").await;
}

#[tokio::test]
async fn every_wrong_address_has_its_own_words() {
    let server = fast();
    let nothing = free_port().unwrap();
    let (error, text) = refused(format!("redis://127.0.0.1:{nothing}")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(text.contains("nothing listens"), "{text}");
    let (error, text) = refused(format!("{}/9999", url(&server))).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    assert!(text.contains("no database of that number"), "{text}");
    let (error, text) = refused(format!("redis+cluster://{}", server.address())).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    assert!(text.contains("is no Cluster"), "{text}");
    let (error, text) =
        refused(format!("redis+sentinel://{}?service=mymaster", server.address())).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
    let (error, text) = refused("redis+sentinel://127.0.0.1:1").await;
    assert!(error.kind() == ErrorKind::Invalid && text.contains("service"), "{text}");
    let (error, text) = refused("redis://127.0.0.1:1,127.0.0.1:2").await;
    assert!(error.kind() == ErrorKind::Invalid && text.contains("redis+cluster"), "{text}");
}

#[tokio::test]
async fn what_is_not_redis_is_told_from_it() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let replies: [&[u8]; 3] = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"silence"];
    tokio::spawn(async move {
        for reply in replies {
            let (mut stream, _) = listener.accept().await.unwrap();
            drop(stream.read(&mut [0; 256]).await);
            if reply == b"silence" {
                std::future::pending::<()>().await;
            }
            drop(stream.write_all(reply).await);
        }
    });
    for words in ["does not speak the protocol", "was closed before", "without an answer"] {
        let (error, text) = refused(format!("redis://{at}")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn databases_are_rooms_of_their_own() {
    let server = fast();
    let [one, two] =
        [open(format!("{}/1", url(&server))).await, open(format!("{}/2", url(&server))).await];
    let first = granted(&*one, "job", "me").await;
    let second = granted(&*two, "job", "me").await;
    assert_ne!(first.fence, second.fence);
    // A message of the one does not wake the other.
    let mut watch = two.watch(&key("job")).await.unwrap();
    cycle(&*one, "other").await;
    one.force_release(&evicting("job")).await.unwrap();
    let woken = bounded("nothing", std::time::Duration::from_millis(300), watch.changed()).await;
    assert!(woken.is_err(), "woken by another database");
    two.force_release(&evicting("job")).await.unwrap();
    bounded("its own message", SOON, watch.changed()).await.unwrap();
    let query = ListQuery { prefix: String::new(), after: None, limit: 10 };
    assert!(one.list(&query).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_command_that_is_missing_is_named_and_its_arguments_are_not() {
    let server = start_redis(&["--rename-command", "EVALSHA", ""]).unwrap();
    let (error, text) = refused(url(&server)).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
    assert!(text.contains("EVALSHA") && !text.contains("rehearsal"), "{text}");
}

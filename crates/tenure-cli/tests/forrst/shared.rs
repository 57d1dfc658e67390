//! One Redis shared with the reference implementation, which writes `forrst_lock:` behind the
//! prefix of its cache: `SET key owner NX PX`, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use tenure_testkit::servers::redis::start_redis;
use tokio::process::Command;

use crate::Server;

const PREFIX: &str = "app_cache:forrst_lock:";

/// Says a line to Redis, and gives the first line of the answer, and the second of a text.
fn say(at: std::net::SocketAddr, line: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut answer = vec![0; 1024];
    let size = stream.read(&mut answer).unwrap();
    String::from_utf8(answer[..size].to_vec()).unwrap()
}

#[tokio::test]
async fn locks_are_shared_with_the_reference() {
    let (redis, upstream) = (start_redis(&[]).unwrap(), Server::python().await);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tenure.toml");
    let text = format!(
        "listen = '127.0.0.1:0'\n[stores.main]\nurl = 'redis://{}'\nraw_keys = true\n\
         [forrst]\nprefix = '{PREFIX}'\nnamespace = 'default'\nupstream = '{}'\n",
        redis.address(),
        upstream.url
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["serve", "--config"]).arg(&config);
    let server = Server::started(command).await;
    let key = format!("{PREFIX}test.work:account:7");
    let lock = json!({"key": "account:7", "ttl": {"value": 30, "unit": "second"},
        "auto_release": false});
    assert!(say(redis.address(), &format!("SET {key} php NX PX 60000")).starts_with("+OK"));
    let answer = server.call("test.work", json!({"ms": 1}), lock.clone()).await;
    assert_eq!(answer["errors"][0]["code"], "LOCK_ACQUISITION_FAILED", "{answer}");
    assert_eq!(answer["errors"][0]["details"]["full_key"], key);
    assert!(say(redis.address(), &format!("DEL {key}")).starts_with(":1"));
    let answer = server.call("test.work", json!({"ms": 1}), lock).await;
    let owner = answer["extensions"][0]["data"]["owner"].as_str().unwrap();
    assert!(say(redis.address(), &format!("GET {key}")).contains(owner), "{answer}");
    assert!(say(redis.address(), &format!("SET {key} php NX PX 60000")).starts_with("$-1"));
}

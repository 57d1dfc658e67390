//! A component of Dapr's as the store: on one Redis, Dapr's sidecars and tenure exclude each other.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use tenure::clock::{Clock, SystemClock};
use tokio::process::{Child, Command};

use super::sidecar::{Sidecar, client, run};

struct Redis {
    port: u16,
    _child: Child,
}

impl Redis {
    async fn start() -> Self {
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let child = command.spawn().expect("redis-server: run `cargo xtask install`");
        let redis = Self { port, _child: child };
        for _ in 0..500 {
            if redis.say(&["PING"]).await == "PONG" {
                return redis;
            }
            SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(20)).await;
        }
        panic!("Redis does not answer");
    }

    /// What it answers to a command, as `redis-cli` shows it.
    async fn say(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(words);
        let output = command.output().await.unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

#[tokio::test]
async fn a_component_excludes_dapr_s_own_sidecars() {
    let redis = Redis::start().await;
    let folder = tempfile::tempdir().unwrap();
    let component = format!(
        "apiVersion: dapr.io/v1alpha1\nkind: Component\nmetadata:\n  name: lockstore\nspec:\n  \
         type: lock.redis\n  version: v1\n  metadata:\n  - name: redisHost\n    \
         value: 127.0.0.1:{}\n  - name: redisPassword\n    value: \"\"\n",
        redis.port
    );
    std::fs::write(folder.path().join("lockstore.yaml"), component).unwrap();
    let sidecar = Sidecar::start(&["--dapr-components", folder.path().to_str().unwrap()]).await;

    run(client::python("locks.py"), &sidecar).await;
    // As Dapr's own component takes it.
    let theirs = ["SET", "lock||app||shared", "theirs", "EX", "60", "NX"];
    assert_eq!(redis.say(&theirs).await, "OK");
    run(client::python("shared.py"), &sidecar).await;
    let ours = redis.say(&["GET", "lock||app||ours"]).await;
    assert_eq!(ours, "ours", "the lock of the other is not in Dapr's form");
    assert_eq!(redis.say(&["SET", "lock||app||ours", "theirs", "EX", "60", "NX"]).await, "");
}

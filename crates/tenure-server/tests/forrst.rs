//! Forrst's calls through the server: the rights of its locks are those of their namespace, and
//! what is done to them is written down.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tenure_server::Running;
use tenure_server::config::Config;

const KEY: &str = "lock:report";

struct Stage {
    running: Running,
    folder: tempfile::TempDir,
}

impl Stage {
    /// A token for each verb, of the same name, and one for all of them.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut text = format!(
            "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n[forrst]\nnamespace = 'calls'\n\
             [audit]\nfile = '{}'\n",
            folder.path().join("audit.jsonl").display()
        );
        for (name, verbs) in [
            ("acquire", "'acquire'"),
            ("read", "'read'"),
            ("force", "'force'"),
            ("admin", "'read', 'admin'"),
            ("elsewhere", "'acquire', 'read', 'force', 'admin'"),
        ] {
            let digest = Sha256::digest(format!("{name}-token"));
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let namespace = if name == "elsewhere" { "other" } else { "calls" };
            text += &format!(
                "[[tokens]]\nname = '{name}'\nsha256 = '{digest}'\n\
                 grants = [{{ namespace = '{namespace}', verbs = [{verbs}] }}]\n"
            );
        }
        let running = Running::start(Config::parse(&text).unwrap()).await.unwrap();
        let stage = Self { running, folder };
        let place = tenure_server::api::Place {
            key: KEY.into(),
            namespace: "calls".into(),
            ..Default::default()
        };
        let order = tenure_server::api::Order {
            place,
            lock_id: Some("s3cret-owner".into()),
            ..Default::default()
        };
        let caller = tenure_server::Caller {
            identity: tenure_server::Identity::unrestricted("test"),
            peer: None,
        };
        stage.running.api().lock(&caller, &order).await.unwrap();
        stage
    }

    async fn call(&self, token: Option<&str>, function: &str, arguments: Value) -> (String, Value) {
        let document = json!({
            "protocol": {"name": "forrst", "version": "0.1.0"},
            "id": "req_1",
            "call": {
                "function": format!("urn:cline:forrst:ext:atomic-lock:fn:{function}"),
                "arguments": arguments,
            },
        });
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "20", "--write-out", "\n%{http_code}"]).args([
            "-H",
            "content-type: application/json",
            "--data",
            &document.to_string(),
        ]);
        if let Some(token) = token {
            curl.args(["-H", &format!("authorization: Bearer {token}-token")]);
        }
        curl.arg(format!("http://{}/forrst", self.running.address()));
        let output = tokio::task::spawn_blocking(move || curl.output()).await.unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.to_owned(), serde_json::from_str(body).unwrap_or_default())
    }
}

fn code(answer: &Value) -> &str {
    answer["errors"][0]["code"].as_str().unwrap_or("none")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_function_needs_its_right_and_only_an_administrator_sees_the_owner() {
    let stage = Stage::new().await;
    let key = json!({"key": KEY});
    let wrong = json!({"key": KEY, "owner": "another"});
    for (token, function, arguments, status, told) in [
        ("read", "status", &key, "200", "none"),
        ("acquire", "status", &key, "403", "FORBIDDEN"),
        ("elsewhere", "status", &key, "403", "FORBIDDEN"),
        ("acquire", "release", &wrong, "403", "LOCK_OWNERSHIP_MISMATCH"),
        ("read", "release", &wrong, "403", "FORBIDDEN"),
        ("acquire", "force-release", &key, "403", "FORBIDDEN"),
        ("elsewhere", "force-release", &key, "403", "FORBIDDEN"),
    ] {
        let (got, answer) = stage.call(Some(token), function, arguments.clone()).await;
        assert_eq!((got.as_str(), code(&answer)), (status, told), "{token} {function}: {answer}");
    }
    assert_eq!(stage.call(None, "status", key.clone()).await.0, "401");

    let (_, answer) = stage.call(Some("read"), "status", key.clone()).await;
    assert_eq!(answer["result"]["locked"], true);
    assert_eq!(answer["result"]["owner"], Value::Null);
    let (_, answer) = stage.call(Some("admin"), "status", key.clone()).await;
    assert_eq!(answer["result"]["owner"], "s3cret-owner");
    let own = json!({"key": KEY, "owner": "s3cret-owner"});
    let (_, answer) = stage.call(Some("read"), "status", own.clone()).await;
    assert_eq!(answer["result"]["owner"], "s3cret-owner");

    let (status, answer) = stage.call(Some("force"), "force-release", key.clone()).await;
    assert_eq!((status.as_str(), &answer["result"]["forced"]), ("200", &json!(true)));
    let (_, answer) = stage.call(Some("read"), "status", key).await;
    assert_eq!(answer["result"]["locked"], false);
    let audit = std::fs::read_to_string(stage.folder.path().join("audit.jsonl")).unwrap();
    let forced = audit.lines().filter(|line| line.contains(r#""call":"force_unlock""#)).count();
    assert!(forced >= 3, "the refused ones too: {audit}");
    assert!(audit.contains("Forrst force-release") && !audit.contains("s3cret-owner"), "{audit}");
}

//! A server in this process, and curl as its client.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;
use tenure::Store;
use tenure_server::Running;
use tenure_server::config::Config;
use tokio::task::spawn_blocking;

/// A server on a free port with a store of its own.
pub(crate) struct Server {
    pub(crate) running: Running,
    token: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn lock_id(&self) -> String {
        assert_eq!(self.status, 201, "{self:?}");
        self.json()["lock_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn fence(&self) -> u64 {
        self.json()["fence"].as_u64().unwrap()
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with("").await
    }

    /// With more of a configuration.
    pub(crate) async fn with(more: &str) -> Self {
        let text = format!(
            "listen = '127.0.0.1:0'\n{more}\n[stores.main]\nurl = 'memory:'\n[stores.other]\nurl = \
             'memory:'\n"
        );
        let mut config = Config::parse(&text).unwrap();
        config.default_store.get_or_insert_with(|| "main".into());
        Self { running: Running::start(config).await.unwrap(), token: None }
    }

    /// On a store of the test's own.
    pub(crate) async fn on(store: Arc<dyn Store>) -> Self {
        let config = Config::parse("listen = '127.0.0.1:0'\n").unwrap();
        let stores = BTreeMap::from([("main".to_owned(), store)]);
        Self { running: Running::start_with(config, stores).await.unwrap(), token: None }
    }

    /// The same server, asked with a token.
    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address())
    }

    /// `curl` with these arguments before the URL.
    pub(crate) fn command(&self, path: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--no-buffer", "--max-time", "30"]);
        if let Some(token) = &self.token {
            command.args(["-H", &format!("authorization: Bearer {token}")]);
        }
        command.args(arguments).arg(self.url(path)).stdin(Stdio::null());
        command
    }

    pub(crate) async fn curl(&self, path: &str, arguments: &[&str]) -> Reply {
        let mut command = self.command(path, arguments);
        command.args(["--write-out", "\n%{http_code}"]);
        let output = spawn_blocking(move || command.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        Reply { status: status.parse().unwrap(), body: body.to_owned() }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.curl(path, &[]).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        self.curl(path, &["--data", body]).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &str) -> Reply {
        self.curl(path, &["-X", "PATCH", "--data", body]).await
    }

    pub(crate) async fn delete(&self, path: &str, body: &str) -> Reply {
        self.curl(path, &["-X", "DELETE", "--data", body]).await
    }
}

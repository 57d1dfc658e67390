//! A server process in a folder of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure::clock::{Clock, SystemClock};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{Acquired, HoldResponse, Target, hold_response::Event};
use tenure_testkit::servers::free_port;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// No wait in these tests is longer than this. It is far more than any should take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// It goes with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    folder: PathBuf,
}

impl Server {
    /// Starts it, with all that it has to say in the log. `more` are arguments.
    pub(crate) fn start(folder: &Path, port: u16, more: &[&str]) -> Self {
        let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(more)
            .env_remove("TENURE_STORE")
            .env("XDG_DATA_HOME", folder)
            .env("TENURE_LOG", "trace")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, port, folder: folder.to_owned() }
    }

    /// Starts it with a configuration, which stands in the folder as `tenure.toml`.
    pub(crate) fn configured(folder: &Path, config: &str, more: &[&str]) -> Self {
        let path = folder.join("tenure.toml");
        fs::write(&path, config).unwrap();
        let arguments = [&["--config", path.to_str().unwrap()], more].concat();
        Self::start(folder, free_port().unwrap(), &arguments)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(&self.child), signal).unwrap();
    }

    /// Tells it to end and waits until it has.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.child.wait().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// A connection to it, as soon as it answers.
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.url("")).unwrap();
        let end = SystemClock.now() + LIMIT;
        loop {
            if let Ok(channel) = endpoint.connect().await {
                return channel;
            }
            assert!(SystemClock.now() < end, "the server does not answer: {}", self.log());
            pause(Duration::from_millis(25)).await;
        }
    }

    pub(crate) async fn client(&self) -> LockServiceClient<Channel> {
        LockServiceClient::new(self.channel().await)
    }

    /// `curl` with these arguments: what it prints.
    pub(crate) fn curl(&self, path: &str, arguments: &[&str]) -> String {
        let output = Command::new("curl")
            .args(["--silent", "--max-time", "30"])
            .args(arguments)
            .arg(self.url(path))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

pub(crate) fn target(key: &str) -> Option<Target> {
    Some(Target { key: key.into(), ..Target::default() })
}

pub(crate) async fn acquired(stream: &mut Streaming<HoldResponse>) -> Acquired {
    loop {
        match stream.message().await.unwrap().unwrap().event.unwrap() {
            Event::Acquired(acquired) => return acquired,
            Event::Waiting(_) | Event::Ping(_) => {}
        }
    }
}

pub(crate) async fn pause(time: Duration) {
    SystemClock.sleep_until(SystemClock.now() + time).await;
}

/// Asks again and again until the answer is yes.
pub(crate) async fn until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let end = SystemClock.now() + LIMIT;
    while !ask().await {
        assert!(SystemClock.now() < end, "not within {LIMIT:?}: {what}");
        pause(Duration::from_millis(25)).await;
    }
}

/// A token as the configuration has it, with its grants in TOML.
pub(crate) fn token(name: &str, token: &str, grants: &str) -> String {
    let digest = Command::new("sh")
        .args(["-c", &format!("printf %s {token} | sha256sum | cut -d' ' -f1")])
        .output()
        .unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    format!("[[tokens]]\nname = '{name}'\nsha256 = '{}'\ngrants = {grants}\n", digest.trim())
}

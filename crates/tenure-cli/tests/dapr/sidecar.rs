//! `tenure serve` with Dapr's ports, and the programs that talk to it.

use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tenure::clock::{SystemClock, within};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// No wait in these tests is longer than this. It is far more than any should take.
const LIMIT: Duration = Duration::from_secs(60);

/// A server beside an application `app`, which goes with this value.
pub(crate) struct Sidecar {
    pub(crate) http: u16,
    grpc: u16,
    _child: Child,
    // Nobody may find it closed.
    _stderr: Lines<BufReader<ChildStderr>>,
    _folder: TempDir,
}

impl Sidecar {
    /// On free ports and a store of its own, with these arguments beside.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--app-id", "app"])
            .args(["--dapr-http-port", "0", "--dapr-grpc-port", "0"])
            .args(arguments)
            .env_remove("TENURE_STORE")
            .env("XDG_DATA_HOME", folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let http = port(&mut stderr, "Dapr's API over HTTP").await;
        let grpc = port(&mut stderr, "Dapr's API over gRPC").await;
        Self { http, grpc, _child: child, _stderr: stderr, _folder: folder }
    }
}

/// The port at the end of the line that says this.
async fn port(stderr: &mut Lines<BufReader<ChildStderr>>, what: &str) -> u16 {
    loop {
        let line = within(&SystemClock, LIMIT, stderr.next_line()).await.expect("a line in time");
        let line = line.unwrap().unwrap_or_else(|| panic!("it ended without saying {what:?}"));
        if line.contains(what) {
            return line.rsplit(':').next().unwrap().parse().unwrap();
        }
    }
}

/// Runs a client to its end, which must be a good one.
pub(crate) async fn run(mut client: Command, sidecar: &Sidecar) {
    client
        .env("DAPR_HTTP_PORT", sidecar.http.to_string())
        .env("DAPR_GRPC_PORT", sidecar.grpc.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = within(&SystemClock, LIMIT, client.output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{client:?}: {said}\n{complained}");
    assert!(said.ends_with("all is well\n"), "{client:?}: {said}\n{complained}");
}

/// The clients.
pub(crate) mod client {
    use std::path::{Path, PathBuf};

    use tokio::process::Command;

    /// With nothing but what is pinned: not the packages of the system or of the user.
    pub(crate) fn python(name: &str) -> Command {
        let mut python = Command::new("python3");
        python.arg("-S").arg(script(name)).env("PYTHONPATH", installed("python", "dapr"));
        python
    }

    pub(crate) fn node(name: &str, protocol: &str) -> Command {
        let modules = installed("node", "node_modules/@dapr/dapr").join("node_modules");
        let mut node = Command::new("node");
        node.arg(script(name)).arg(protocol).env("NODE_PATH", modules);
        node
    }

    fn script(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dapr/clients").join(name)
    }

    /// Where `cargo xtask install` puts what is pinned.
    fn installed(part: &str, package: &str) -> PathBuf {
        let here = std::env::current_exe().unwrap();
        let mut folders = here.ancestors().map(|folder| folder.join("servers").join(part));
        folders
            .find(|folder| folder.join(package).is_dir())
            .unwrap_or_else(|| panic!("{package} is not installed: run `cargo xtask install`"))
    }
}

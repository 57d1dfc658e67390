//! Servers for the `object` store: a real one, two emulators, and a folder.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{Kind, Program, Server, Service, free_port, place};

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "object/seaweedfs", start: seaweedfs },
    Kind { name: "object/ministack", start: ministack },
    Kind { name: "object/azurite", start: azurite },
    Kind { name: "object/folder", start: folder },
];

/// The access key of the S3 servers, and its secret.
const S3_KEY: (&str, &str) = ("tenure-tests", "a-secret-for-tests-only");
/// The account that Azurite always has, and its key, which is printed in its manual.
const AZURE_ACCOUNT: &str = "devstoreaccount1";
const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const BUCKET: &str = "tenure";

/// A server that speaks S3.
#[derive(Debug)]
struct S3 {
    server: Server,
    /// An emulator takes any secret.
    checks_secrets: bool,
}

impl S3 {
    fn url_with(&self, secret: &str, room: u32, at: Option<SocketAddr>) -> String {
        let ((id, _), at) = (S3_KEY, at.unwrap_or_else(|| self.server.address()));
        format!(
            "s3://{BUCKET}/room-{room}?endpoint=http://{at}&allow_http=true&region=us-east-1\
             &access_key_id={id}&secret_access_key={secret}"
        )
    }
}

impl Service for S3 {
    fn server(&self) -> Option<&Server> {
        Some(&self.server)
    }

    fn url(&self, room: u32, at: Option<SocketAddr>) -> String {
        self.url_with(S3_KEY.1, room, at)
    }

    fn wrong_url(&self, password: &str) -> Option<String> {
        self.checks_secrets.then(|| self.url_with(password, 0, None))
    }
}

#[derive(Debug)]
struct Azurite(Server);

impl Azurite {
    fn url_with(&self, key: &str, room: u32, at: Option<SocketAddr>) -> String {
        let at = at.unwrap_or_else(|| self.0.address());
        format!(
            "az://{BUCKET}/room-{room}?endpoint=http://{at}/{AZURE_ACCOUNT}&allow_http=true\
             &account={AZURE_ACCOUNT}&access_key={key}"
        )
    }
}

impl Service for Azurite {
    fn server(&self) -> Option<&Server> {
        Some(&self.0)
    }

    /// It saves every five seconds, and when it is asked to end.
    fn hardest_end(&self) -> Signal {
        Signal::TERM
    }

    fn url(&self, room: u32, at: Option<SocketAddr>) -> String {
        self.url_with(&AZURE_KEY.replace('+', "%2B"), room, at)
    }

    fn wrong_url(&self, password: &str) -> Option<String> {
        Some(self.url_with(password, 0, None))
    }
}

#[derive(Debug)]
struct Folder(TempDir);

impl Service for Folder {
    fn server(&self) -> Option<&Server> {
        None
    }

    fn url(&self, room: u32, _at: Option<SocketAddr>) -> String {
        format!("folder:{}", self.0.path().join(format!("room-{room}")).display())
    }
}

fn folder() -> Result<Arc<dyn Service>> {
    Ok(Arc::new(Folder(tempfile::tempdir()?)))
}

fn seaweedfs() -> Result<Arc<dyn Service>> {
    let weed = place::python()?.join("bin/weed");
    let server = Server::start("seaweedfs", |port, folder| {
        let (id, secret) = S3_KEY;
        let config = format!(
            r#"{{"identities": [{{"name": "tests", "actions": ["Admin", "Read", "Write", "List"],
            "credentials": [{{"accessKey": "{id}", "secretKey": "{secret}"}}]}}]}}"#
        );
        std::fs::write(folder.join("s3.json"), config)?;
        Ok(Program {
            path: weed,
            arguments: weed_arguments(port, folder)?,
            environment: vec![("TMPDIR".into(), folder.into())],
            user: None,
            last_signal: "KILL",
            is_ready: Box::new(move || answers(port, "/healthz", "200")),
        })
    })?;
    make_bucket(server.address())?;
    Ok(Arc::new(S3 { server, checks_secrets: true }))
}

fn weed_arguments(port: u16, folder: &Path) -> Result<Vec<OsString>> {
    let mut arguments = vec![format!("-logdir={}", folder.display()), "server".to_owned()];
    arguments.push(format!("-dir={}", folder.display()));
    for part in ["master", "volume", "filer"] {
        arguments.push(format!("-{part}.port={}", free_port()?));
        arguments.push(format!("-{part}.port.grpc={}", free_port()?));
    }
    arguments.push(format!("-s3.port={port}"));
    arguments.push(format!("-s3.port.grpc={}", free_port()?));
    let fixed = [
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        "-s3",
        "-s3.config=s3.json",
        // Otherwise on fixed ports, and without those it ends.
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        // With its usual values it is away for 15 to 40 seconds when it is started again.
        "-master.electionTimeout=1s",
        "-master.heartbeatInterval=100ms",
        "-volume.preStopSeconds=0",
        "-volume.max=200",
        "-master.volumeSizeLimitMB=64",
        "-master.telemetry=false",
    ];
    arguments.extend(fixed.map(str::to_owned));
    Ok(arguments.into_iter().map(Into::into).collect())
}

fn ministack() -> Result<Arc<dyn Service>> {
    let packages = place::python()?;
    let server = Server::start("ministack", |port, folder| {
        let bind = format!("127.0.0.1:{port}");
        // Without workers it is one process, which ends when it is killed.
        let arguments = ["-m", "hypercorn", "ministack.app:app", "--bind", &bind, "--workers", "0"];
        Ok(Program {
            path: "python3".into(),
            arguments: arguments.map(Into::into).to_vec(),
            environment: vec![
                ("PYTHONPATH".into(), packages.into()),
                ("S3_PERSIST".into(), "1".into()),
                ("S3_DATA_DIR".into(), folder.join("s3").into()),
                // On a fixed port.
                ("IOT_MTLS_ENABLED".into(), "0".into()),
            ],
            user: None,
            last_signal: "KILL",
            is_ready: Box::new(move || answers(port, "/", "")),
        })
    })?;
    make_bucket(server.address())?;
    Ok(Arc::new(S3 { server, checks_secrets: false }))
}

fn azurite() -> Result<Arc<dyn Service>> {
    let script = place::node()?.join("node_modules/azurite/dist/src/blob/main.js");
    let server = Server::start("azurite", |port, folder| {
        let port_text = port.to_string();
        let arguments = [
            script.as_os_str(),
            "--blobHost".as_ref(),
            "127.0.0.1".as_ref(),
            "--blobPort".as_ref(),
            port_text.as_ref(),
            "--location".as_ref(),
            folder.as_os_str(),
            "--disableTelemetry".as_ref(),
            "--skipApiVersionCheck".as_ref(),
            "--silent".as_ref(),
        ];
        Ok(Program {
            path: "node".into(),
            arguments: arguments.map(Into::into).to_vec(),
            environment: Vec::new(),
            user: None,
            last_signal: "KILL",
            is_ready: Box::new(move || answers(port, "/", "")),
        })
    })?;
    make_container(server.address())?;
    Ok(Arc::new(Azurite(server)))
}

/// Whether the server answers a GET, with this status if it is one.
fn answers(port: u16, path: &str, status: &str) -> bool {
    let limit = Duration::from_millis(500);
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(limit))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.") && answer.ends_with(status))
}

/// Creates the bucket, and goes on asking until an object can be written: a server answers earlier
/// than that.
fn make_bucket(address: SocketAddr) -> Result<()> {
    let (id, secret) = S3_KEY;
    let script = format!(
        "import botocore.session, botocore.config, time
config = botocore.config.Config(retries={{'max_attempts': 0}}, s3={{'addressing_style': 'path'}})
s3 = botocore.session.get_session().create_client('s3', endpoint_url='http://{address}',
    region_name='us-east-1', aws_access_key_id='{id}', aws_secret_access_key='{secret}',
    config=config)
for left in reversed(range(150)):
    try:
        try:
            s3.create_bucket(Bucket='{BUCKET}')
        except s3.exceptions.BucketAlreadyOwnedByYou:
            pass
        s3.put_object(Bucket='{BUCKET}', Key='ready', Body=b'1')
        break
    except Exception:
        if not left:
            raise
        time.sleep(0.1)
"
    );
    python(&script)
}

fn make_container(address: SocketAddr) -> Result<()> {
    let script = format!(
        "import base64, email.utils, hashlib, hmac, urllib.request
account, date = '{AZURE_ACCOUNT}', email.utils.formatdate(usegmt=True)
headers = 'x-ms-date:' + date + '\\nx-ms-version:2023-11-03\\n'
resource = '/' + account + '/' + account + '/{BUCKET}\\nrestype:container'
text = 'PUT' + '\\n' * 12 + headers + resource
key = base64.b64decode('{AZURE_KEY}')
sign = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
request = urllib.request.Request('http://{address}/' + account + '/{BUCKET}?restype=container',
    method='PUT', data=None, headers={{'x-ms-date': date, 'x-ms-version': '2023-11-03',
    'Authorization': 'SharedKey ' + account + ':' + sign}})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
opener.open(request, timeout=10).read()
"
    );
    python(&script)
}

fn python(script: &str) -> Result<()> {
    let made = Command::new("python3")
        .args(["-c", script])
        .env("PYTHONPATH", place::python()?)
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .context("python3 cannot be started")?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

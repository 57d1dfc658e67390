//! Connections that dawdle, and those that are encrypted.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tenure_server::Running;
use tenure_server::config::Config;
use tokio::task::spawn_blocking;

async fn start(text: &str) -> Running {
    let text = format!("listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n{text}");
    Running::start(Config::parse(&text).unwrap()).await.unwrap()
}

fn curl(arguments: &[String]) -> (bool, String) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20", "--write-out", "%{http_code}"])
        .args(arguments)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Returns when the server has closed this connection.
fn wait_for_end(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = Vec::new();
    // A reset is an end too; only silence is not.
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_silent_connections_do_not_stop_service() {
    let running = start("").await;
    let address = running.address();
    spawn_blocking(move || {
        let silent: Vec<_> = (0..1000).map(|_| TcpStream::connect(address).unwrap()).collect();
        let (done, text) =
            curl(&[format!("http://{address}/v1/locks/k"), "--data".into(), "".into()]);
        assert!(done && text.ends_with("201"), "{text}");
        drop(silent);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_or_half_of_it_is_closed() {
    let running = start("[limits]\nheader_timeout = '200ms'\nidle_timeout = '300ms'").await;
    let address = running.address();
    spawn_blocking(move || {
        use std::io::Write;
        wait_for_end(TcpStream::connect(address).unwrap());
        let mut half = TcpStream::connect(address).unwrap();
        half.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").unwrap();
        wait_for_end(half);
        let mut idle = TcpStream::connect(address).unwrap();
        idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        wait_for_end(idle);
    })
    .await
    .unwrap();
}

/// A client that keeps its connection finds it open, for longer than a head may take.
#[tokio::test(flavor = "multi_thread")]
async fn between_requests_there_is_time() {
    let running = start("[limits]\nheader_timeout = '200ms'\nidle_timeout = '20s'").await;
    let address = running.address();
    spawn_blocking(move || {
        use std::io::Write;
        let mut kept = TcpStream::connect(address).unwrap();
        kept.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        for _ in 0..2 {
            kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            let mut answer = [0; 12];
            kept.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 204");
            // What is left of the answer.
            std::thread::sleep(Duration::from_millis(600));
            let mut rest = [0; 1024];
            let read = kept.read(&mut rest).unwrap();
            assert!(rest[..read].ends_with(b"\r\n\r\n"));
        }
        kept.write_all(b"GET /heal").unwrap();
        wait_for_end(kept);
    })
    .await
    .unwrap();
}

/// Otherwise a client could not tell whether its last request was taken.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_of_http2_is_told_that_it_ends() {
    let running = start("[limits]\nheader_timeout = '200ms'").await;
    let address = running.address();
    spawn_blocking(move || {
        use std::io::Write;
        const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&SETTINGS).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        let mut kinds = Vec::new();
        let mut frames = &*said;
        while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
            kinds.push(*kind);
            frames = &rest[u32::from_be_bytes([0, *a, *b, *c]) as usize..];
        }
        assert!(kinds.contains(&7), "no GOAWAY in {kinds:?}");
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_the_idle_timeout() {
    let running = start("[limits]\nidle_timeout = '100ms'\nping = '100ms'").await;
    let url = format!("http://{}/v1/locks/k", running.address());
    let text = spawn_blocking(move || {
        let output = Command::new("curl")
            .args(["--silent", "--no-buffer", "--max-time", "2", "--data", ""])
            .args(["-H", "accept: application/x-ndjson", &url])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    })
    .await
    .unwrap();
    assert!(text.matches("ping").count() > 5, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_only_so_many_connections() {
    let running = start("[limits]\nconnections_per_address = 3").await;
    let address = running.address();
    spawn_blocking(move || {
        let kept: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        wait_for_end(TcpStream::connect(address).unwrap());
        drop(kept);
    })
    .await
    .unwrap();
}

/// An authority, and certificates of it in a folder.
struct Papers {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Papers {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer =
            CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    fn issue(&self, file: &str, name: SanType) {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.subject_alt_names = vec![name];
        // One of the same name as its issuer would pass for self-signed.
        parameters.distinguished_name.push(DnType::CommonName, file);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(file, "pem"), certificate.pem()).unwrap();
        std::fs::write(self.path(file, "key"), key.serialize_pem()).unwrap();
    }

    fn path(&self, file: &str, kind: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("{file}.{kind}"))
    }

    fn curl(&self, address: SocketAddr, more: &[&str]) -> (bool, String) {
        let mut arguments = vec![format!("https://localhost:{}/v1/locks/k", address.port())];
        arguments.extend(["--cacert".into(), text(&self.path("ca", "pem"))]);
        arguments.extend(more.iter().map(|more| (*more).to_owned()));
        tokio::task::block_in_place(|| curl(&arguments))
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_known_by_its_certificate_or_its_token() {
    let papers = Papers::new();
    papers.issue("server", SanType::DnsName("localhost".try_into().unwrap()));
    let name = "spiffe://example.org/billing";
    papers.issue("billing", SanType::URI(name.try_into().unwrap()));
    papers.issue("stranger", SanType::DnsName("stranger.example".try_into().unwrap()));
    let config = format!(
        "[tls]\ncert = '{}'\nkey = '{}'\nclient_ca = '{}'\n[[certificates]]\nname = '{name}'\n\
         grants = [{{ namespace = 'default', verbs = ['acquire'] }}]\n",
        text(&papers.path("server", "pem")),
        text(&papers.path("server", "key")),
        text(&papers.path("ca", "pem")),
    );
    let running = start(&config).await;
    let address = running.address();
    let certificate =
        |file: &str| [text(&papers.path(file, "pem")), text(&papers.path(file, "key"))];
    let ask = |file: &str| {
        let [cert, key] = certificate(file);
        papers.curl(address, &["--cert", &cert, "--key", &key, "--data", ""])
    };
    let (_, known) = ask("billing");
    assert!(known.ends_with("201"), "{known}");
    let (_, seen) = papers.curl(
        address,
        &["--cert", &certificate("billing")[0], "--key", &certificate("billing")[1]],
    );
    assert!(seen.ends_with("403"), "acquire is not read: {seen}");
    let (_, stranger) = ask("stranger");
    assert!(stranger.ends_with("401"), "{stranger}");
    let (_, nobody) = papers.curl(address, &["--data", ""]);
    assert!(nobody.ends_with("401"), "{nobody}");
    let plain = curl(&[format!("http://{address}/healthz")]);
    assert!(!plain.0, "no plain text on an encrypted port: {plain:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_tokens_are_read_anew() {
    let (papers, others) = (Papers::new(), Papers::new());
    papers.issue("server", SanType::DnsName("localhost".try_into().unwrap()));
    let with_token = |token: &str| {
        use sha2::Digest;
        let digest = sha2::Sha256::digest(token);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n\
             tls = {{ cert = '{}', key = '{}' }}\n[[tokens]]\nname = 'a'\nsha256 = '{digest}'\n\
             grants = [{{ namespace = '*', verbs = ['acquire'] }}]\n",
            text(&papers.path("server", "pem")),
            text(&papers.path("server", "key")),
        )
    };
    let running = Running::start(Config::parse(&with_token("old")).unwrap()).await.unwrap();
    let ask = |papers: &Papers, token: &str| {
        let header = format!("authorization: Bearer {token}");
        papers.curl(running.address(), &["-H", &header, "--data", r#"{"immediate": true}"#])
    };
    assert!(ask(&papers, "old").1.ends_with("201"));
    assert!(ask(&papers, "new").1.ends_with("401"));
    others.issue("server", SanType::DnsName("localhost".try_into().unwrap()));
    for kind in ["pem", "key"] {
        std::fs::copy(others.path("server", kind), papers.path("server", kind)).unwrap();
    }
    running.reload(&Config::parse(&with_token("new")).unwrap()).unwrap();
    assert!(!ask(&papers, "new").0, "the old authority does not know the new certificate");
    assert!(ask(&others, "new").1.ends_with("423"));
    assert!(ask(&others, "old").1.ends_with("401"));
    std::fs::write(papers.path("server", "pem"), "garbage").unwrap();
    assert!(running.reload(&Config::parse(&with_token("old")).unwrap()).is_err());
    assert!(ask(&others, "old").1.ends_with("401"), "everything stays as it was");
}

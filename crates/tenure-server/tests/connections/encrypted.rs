//! Connections that are encrypted, and those that never come to that.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tenure_server::Running;
use tenure_server::config::Config;

use super::{COUNT, HOURS, curl, start, wait_for_end};

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

/// What a client says first, as far as it got: a record of 512 bytes, of which four came.
const HALF_A_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252];

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_stalled_handshakes_do_not_stop_service_and_are_ended() {
    let papers = Papers::new();
    papers.issue("server", SanType::DnsName("localhost".try_into().unwrap()));
    let config = format!(
        "[tls]\ncert = '{}'\nkey = '{}'\n[limits]\nhandshake_timeout = '5s'\n{HOURS}",
        text(&papers.path("server", "pem")),
        text(&papers.path("server", "key")),
    );
    let running = start(&config).await;
    let address = running.address();
    tokio::task::block_in_place(|| {
        let mut stalled = Vec::new();
        for number in 0..COUNT {
            let mut stream = TcpStream::connect(address).unwrap();
            if number % 2 == 0 {
                stream.write_all(HALF_A_HELLO).unwrap();
            }
            stalled.push(stream);
        }
        let (_, answer) = papers.curl(address, &["--data", ""]);
        assert!(answer.ends_with("201"), "{answer}");
        stalled.into_iter().for_each(wait_for_end);
    });
}

//! `tenures://`: who the server is, and who the client is.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;
use tenure::{ErrorKind, Locks};

use crate::stage::Stage;

/// Certificates in files of their own.
struct Papers {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Papers {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, file: &str, name: SanType) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![name];
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{file}.pem")), cert.pem()).unwrap();
        std::fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn text(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }
}

#[tokio::test]
async fn the_server_shows_its_certificate_and_the_client_its_own() {
    let papers = Papers::new();
    papers.issue("server", SanType::DnsName("locks.example".try_into().unwrap()));
    papers.issue("billing", SanType::URI("spiffe://example/billing".try_into().unwrap()));
    let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|file| papers.text(file));
    let config = format!(
        "[tls]\ncert = '{cert}'\nkey = '{key}'\nclient_ca = '{ca}'\n[[certificates]]\nname = \
         'spiffe://example/billing'\ngrants = [{{ namespace = 'default', verbs = ['acquire'] }}]\n"
    );
    let stage = Stage::with(&config).await;
    let url = |query: &str| format!("tenures://{}?{query}", stage.running.address());
    let trusted = format!("ca={ca}&server_name=locks.example");
    let known =
        format!("{trusted}&cert={}&key={}", papers.text("billing.pem"), papers.text("billing.key"));
    let locks = Locks::open(&url(&known)).await.unwrap();
    locks.lock("k").acquire().await.unwrap().release().await.unwrap();

    let strangers = Papers::new();
    let wrong_ca = format!("ca={}&server_name=locks.example", strangers.text("ca.pem"));
    for (query, kind) in [
        (trusted.as_str(), ErrorKind::Denied),
        (&format!("ca={ca}"), ErrorKind::Unavailable),
        (&wrong_ca, ErrorKind::Unavailable),
        ("ca=/nowhere", ErrorKind::Invalid),
        (&format!("{trusted}&cert={}", papers.text("billing.pem")), ErrorKind::Invalid),
    ] {
        let error = Locks::open(&url(query)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{query}: {error}");
    }
    let plain = Locks::open(&stage.url("")).await.unwrap_err();
    assert_eq!(plain.kind(), ErrorKind::Unavailable, "{plain}");
    let ignored = Locks::open(&stage.url("?ca=/x")).await.unwrap_err();
    assert_eq!(ignored.kind(), ErrorKind::Invalid, "{ignored}");
}

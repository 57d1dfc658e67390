//! `rediss://`: whom to trust, and what is said when that fails.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tenure::ErrorKind;
use tenure_testkit::servers::redis::start_redis;
use tenure_testkit::servers::{Server, free_port};

use crate::stage::{SOON, cycle, evicting, granted, key, open, refused};

/// An authority, and a certificate for this host that it has signed.
struct Papers {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Papers {
    fn write(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let ca_key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(params, ca_key);
        let leaf_key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let leaf = CertificateParams::new(names).unwrap().signed_by(&leaf_key, &issuer).unwrap();
        let file = |end: &str, text: String| {
            let path = folder.join(format!("{name}-{end}.pem"));
            fs::write(&path, text).unwrap();
            path
        };
        Self {
            ca: file("ca", ca.pem()),
            cert: file("cert", leaf.pem()),
            key: file("key", leaf_key.serialize_pem()),
        }
    }
}

fn start(papers: &Papers, clients: &str) -> (Server, u16) {
    let port = free_port().unwrap();
    let text = |path: &Path| path.display().to_string();
    let server = start_redis(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &text(&papers.cert),
        "--tls-key-file",
        &text(&papers.key),
        "--tls-ca-cert-file",
        &text(&papers.ca),
        "--tls-auth-clients",
        clients,
    ]);
    (server.unwrap(), port)
}

#[tokio::test]
async fn the_right_authority_is_trusted_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) =
        (Papers::write(folder.path(), "ours"), Papers::write(folder.path(), "other"));
    let (server, port) = start(&ours, "no");
    let at = format!("rediss://127.0.0.1:{port}");
    let store = open(format!("{at}?ca={}", ours.ca.display())).await;
    cycle(&*store, "job").await;
    granted(&*store, "job", "me").await;
    let mut watch = store.watch(&key("job")).await.unwrap();
    store.force_release(&evicting("job")).await.unwrap();
    tenure_testkit::wait::bounded("the watch to be rung", SOON, watch.changed()).await.unwrap();
    for url in [format!("{at}?ca={}", other.ca.display()), at.clone()] {
        let (error, text) = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
        assert!(text.contains("not trusted here") && text.contains("option ca"), "{text}");
    }
    let (error, text) =
        refused(format!("rediss://127.0.0.2:{port}?ca={}", ours.ca.display())).await;
    assert!(error.kind() == ErrorKind::Denied || text.contains("nothing listens"), "{text}");
    let (error, text) =
        refused(format!("rediss://{}?ca={}", server.address(), ours.ca.display())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
    assert!(text.contains("is it the TLS port?"), "{text}");
    let (error, text) = refused(format!("redis://127.0.0.1:{port}")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
    assert!(text.contains("rediss://"), "{text}");
    for (file, words) in
        [("/nowhere.pem", "cannot be read"), ("/proc/version", "nothing in PEM form")]
    {
        let (error, text) = refused(format!("{at}?ca={file}")).await;
        assert!(error.kind() == ErrorKind::Invalid && text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_one_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let papers = Papers::write(folder.path(), "ours");
    let (_server, port) = start(&papers, "yes");
    let at = format!("rediss://127.0.0.1:{port}?ca={}", papers.ca.display());
    let (error, text) = refused(&at).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
    assert!(text.contains("client certificate"), "{text}");
    let (cert, key) = (papers.cert.display(), papers.key.display());
    let store = open(format!("{at}&cert={cert}&key={key}")).await;
    cycle(&*store, "job").await;
}

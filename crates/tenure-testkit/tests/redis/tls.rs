//! `rediss://`: whom to trust, and what is said when that fails.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tenure::ErrorKind;
use tenure_testkit::servers::redis::start_redis;
use tenure_testkit::servers::{Server, free_port};
use tenure_testkit::wait::until;

use crate::stage::{SOON, ask, cycle, open, raw, refused, woken};

/// An authority, and a certificate that it has signed.
struct Papers {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Papers {
    /// The certificate is for this host.
    fn write(folder: &Path, name: &str) -> Self {
        Self::write_for(folder, name, &["localhost", "127.0.0.1"])
    }

    fn write_for(folder: &Path, name: &str, hosts: &[&str]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let ca_key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(params, ca_key);
        let leaf_key = KeyPair::generate().unwrap();
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        let leaf = CertificateParams::new(hosts).unwrap().signed_by(&leaf_key, &issuer).unwrap();
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

fn start(papers: &Papers, more: &[&str]) -> (Server, u16) {
    let port = free_port().unwrap();
    let text = |path: &Path| path.display().to_string();
    let (port_text, cert) = (port.to_string(), text(&papers.cert));
    let (key, ca) = (text(&papers.key), text(&papers.ca));
    let tls = ["--tls-port", &port_text, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let ca = ["--tls-ca-cert-file", &ca];
    (start_redis(&[&tls, &ca[..], more].concat()).unwrap(), port)
}

const NO_CLIENTS: &[&str] = &["--tls-auth-clients", "no"];

#[tokio::test]
async fn the_right_authority_is_trusted_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) =
        (Papers::write(folder.path(), "ours"), Papers::write(folder.path(), "other"));
    let (server, port) = start(&ours, NO_CLIENTS);
    let at = format!("rediss://127.0.0.1:{port}");
    let store = open(format!("{at}?ca={}", ours.ca.display())).await;
    cycle(&*store, "job").await;
    woken(&*store, &*store, "job").await;
    for url in [format!("{at}?ca={}", other.ca.display()), at.clone()] {
        let (error, text) = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
        assert!(text.contains("not trusted here") && text.contains("option ca"), "{text}");
    }
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
    let (_server, port) = start(&papers, &["--tls-auth-clients", "yes"]);
    let at = format!("rediss://127.0.0.1:{port}?ca={}", papers.ca.display());
    let (error, text) = refused(&at).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
    assert!(text.contains("client certificate"), "{text}");
    let (cert, key) = (papers.cert.display(), papers.key.display());
    let store = open(format!("{at}&cert={cert}&key={key}")).await;
    cycle(&*store, "job").await;
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let papers = Papers::write_for(folder.path(), "ours", &["elsewhere.example", "127.0.0.2"]);
    let (_server, port) = start(&papers, NO_CLIENTS);
    for host in ["127.0.0.1", "localhost"] {
        let (error, text) =
            refused(format!("rediss://{host}:{port}?ca={}", papers.ca.display())).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
        assert!(text.contains("is for another host than the URL names"), "{text}");
    }
}

/// The Cluster names its nodes by their TLS ports, and those are trusted like the one in the URL.
#[tokio::test]
async fn a_cluster_is_reached_by_tls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let papers = Papers::write(folder.path(), "ours");
    let bus = free_port().unwrap().to_string();
    let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--tls-cluster", "yes"];
    let (server, port) = start(&papers, &[&cluster, NO_CLIENTS].concat());
    let mut raw = raw(server.address()).await;
    let (): () = ask(&mut raw, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    until("the cluster to stand", SOON, || {
        let mut raw = raw.clone();
        async move {
            Ok(ask::<String>(&mut raw, &["CLUSTER", "INFO"]).await.contains("cluster_state:ok"))
        }
    })
    .await
    .unwrap();
    let at = format!("rediss+cluster://127.0.0.1:{port}");
    let store = open(format!("{at}?ca={}", papers.ca.display())).await;
    cycle(&*store, "job").await;
    woken(&*store, &*store, "job").await;
    let (error, text) = refused(at).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
}

//! What is checked of the server's certificate, and the one that this client shows.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tenure::ErrorKind;
use tenure::clock::SystemClock;
use tenure::error::Chain;
use tenure::stores::postgres::PostgresOptions;
use tenure_testkit::servers::postgres::{Postgres, give, run};
use tenure_testkit::wait::until;

use crate::{SOON, cycle, open, refusal};

/// An authority in a folder, with what it has signed.
struct Authority<'a> {
    folder: &'a Path,
    name: &'a str,
}

impl<'a> Authority<'a> {
    fn new(folder: &'a Path, name: &'a str) -> Result<Self> {
        let authority = Self { folder, name };
        authority.openssl(&format!(
            "req -x509 {CURVE} -subj /CN={name} -keyout {name}.key -out {name}.crt"
        ))?;
        Ok(authority)
    }

    /// A certificate for `subject`, in the files `FILE.crt` and `FILE.key`.
    fn issue(&self, file: &str, subject: &str, names: &str) -> Result<()> {
        let name = self.name;
        self.openssl(&format!(
            "req {CURVE} -subj /CN={subject} -keyout {file}.key -out {file}.csr"
        ))?;
        std::fs::write(self.folder.join("names"), format!("subjectAltName={names}\n"))?;
        self.openssl(&format!(
            "x509 -req -in {file}.csr -CA {name}.crt -CAkey {name}.key -CAcreateserial -days 2 \
             -extfile names -out {file}.crt"
        ))
    }

    fn openssl(&self, arguments: &str) -> Result<()> {
        run(Command::new("openssl").args(arguments.split(' ')).current_dir(self.folder))
    }
}

const CURVE: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";

/// A server with the certificate `server` of a folder, and these settings beside.
fn start(folder: &Path, settings: &[&str]) -> Result<Postgres> {
    for file in ["server.crt", "server.key"] {
        give(&folder.join(file))?;
    }
    run(Command::new("chmod").args(["a+rx"]).arg(folder))?;
    run(Command::new("chmod").args(["600"]).arg(folder.join("server.key")))?;
    let setting = |name: &str, file: &str| format!("{name}={}", folder.join(file).display());
    let (certificate, key) =
        (setting("ssl_cert_file", "server.crt"), setting("ssl_key_file", "server.key"));
    let tls = ["-c", "ssl=on", "-c", &certificate, "-c", &key];
    Postgres::start(&[&tls, settings].concat())
}

#[tokio::test]
async fn certificates_are_checked_as_the_mode_says() -> Result<()> {
    let folder = tempfile::tempdir()?;
    Authority::new(folder.path(), "wrong")?;
    let right = Authority::new(folder.path(), "right")?;
    right.issue("server", "server", "DNS:elsewhere.example,IP:127.0.0.2")?;
    let server = start(folder.path(), &[])?;
    let path = |file: &str| folder.path().join(file).display().to_string();
    let url = |host: &str, mode: &str, authority: &str| {
        let port = server.server().address().port();
        let root = path(authority).replace('/', "%2F");
        format!(
            "postgres://postgres@{host}:{port}/postgres?hostaddr=127.0.0.1&schema=room_1\
             &sslmode={mode}&sslrootcert={root}"
        )
    };
    let (right, elsewhere) = ("right.crt", "elsewhere.example");
    for good in [
        url("localhost", "disable", right),
        url("localhost", "prefer", "wrong.crt"),
        url("localhost", "verify-ca", right),
        url(elsewhere, "verify-full", right),
        url(elsewhere, "require", right),
        url("127.0.0.2", "require", right),
    ] {
        let store = open(&good).await.with_context(|| good.clone())?;
        cycle(&*store).await?;
        let secure = server.sql(
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE application_name = 'tenure'",
        )?;
        ensure!(secure == if good.contains("disable") { "f" } else { "t" }, "{good}: {secure}");
        drop(store);
        until("the connections to end", SOON, || async {
            let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure'";
            Ok(server.sql(left)? == "0")
        })
        .await?;
    }
    for bad in [
        url("localhost", "verify-full", right),
        url("localhost", "require", right),
        url("localhost", "verify-ca", "wrong.crt"),
        url(elsewhere, "verify-full", "wrong.crt"),
    ] {
        let error = refusal(&bad).await;
        ensure!(error.kind() == ErrorKind::Denied, "{bad}: {}", Chain(&error));
        ensure!(error.to_string().contains("sslrootcert"), "{error}");
    }
    let missing = refusal(&url(elsewhere, "verify-full", "missing.crt")).await;
    ensure!(missing.kind() == ErrorKind::Invalid && missing.to_string().contains("sslrootcert"));
    Ok(())
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_one_is_wanted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |file: &str| folder.path().join(file).display().to_string();
    let (ours, other) =
        (Authority::new(folder.path(), "ours")?, Authority::new(folder.path(), "other")?);
    ours.issue("server", "server", "IP:127.0.0.1")?;
    ours.issue("client", "certified", "DNS:client")?;
    ours.issue("stranger", "stranger", "DNS:client")?;
    other.issue("forged", "certified", "DNS:client")?;
    let server = start(folder.path(), &["-c", &format!("ssl_ca_file={}", path("ours.crt"))])?;
    server.sql("CREATE ROLE certified LOGIN; GRANT CREATE ON DATABASE postgres TO certified")?;
    let rules = "hostssl all certified all cert\nhost all postgres all trust\n";
    std::fs::write(server.server().folder().join("data/pg_hba.conf"), rules)?;
    server.sql("SELECT pg_reload_conf()")?;
    let bare = format!(
        "{}?schema=room_1&sslmode=verify-full&sslrootcert={}",
        server.url_for("certified", "postgres"),
        path("ours.crt")
    );
    let shown = |file: &str, key: &str| {
        format!("{bare}&sslcert={}&sslkey={}", path(&format!("{file}.crt")), path(key))
    };
    cycle(&*open(&shown("client", "client.key")).await?).await?;
    let in_code = PostgresOptions::new(&bare)?;
    let in_code = in_code.client_certificate(path("client.crt"), path("client.key"));
    cycle(&*in_code.open(Arc::new(SystemClock)).await?).await?;
    for (url, kind, says) in [
        (bare.clone(), ErrorKind::Denied, "pg_hba"),
        (shown("stranger", "stranger.key"), ErrorKind::Denied, "pg_hba"),
        (shown("forged", "forged.key"), ErrorKind::Denied, "sslcert"),
        (shown("client", "stranger.key"), ErrorKind::Invalid, "fit together"),
        (shown("client", "missing.key"), ErrorKind::Invalid, "sslkey"),
        (format!("{bare}&sslcert={}", path("client.crt")), ErrorKind::Invalid, "together"),
    ] {
        let error = refusal(&url).await;
        let text = Chain(&error).to_string();
        ensure!(error.kind() == kind && text.contains(says), "{url}: {:?}: {text}", error.kind());
    }
    Ok(())
}

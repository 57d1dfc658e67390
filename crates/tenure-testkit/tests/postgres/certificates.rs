//! What is checked of the server's certificate.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tenure::ErrorKind;
use tenure::error::Chain;
use tenure_testkit::servers::postgres::{Postgres, give, run};
use tenure_testkit::wait::until;

use crate::{SOON, cycle, open, refusal};

/// A certificate authority in `folder`, and a certificate from it for `name`.
fn issue(folder: &Path, authority: &str, name: &str) -> Result<()> {
    let openssl = |arguments: &str| {
        run(Command::new("openssl").args(arguments.split(' ')).current_dir(folder))
    };
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    openssl(&format!(
        "req -x509 {curve} -subj /CN={authority} -keyout {authority}.key -out {authority}.crt"
    ))?;
    openssl(&format!("req {curve} -subj /CN=server -keyout server.key -out server.csr"))?;
    std::fs::write(folder.join("names"), format!("subjectAltName={name}\n"))?;
    openssl(&format!(
        "x509 -req -in server.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial \
         -days 2 -extfile names -out server.crt"
    ))
}

#[tokio::test]
async fn certificates_are_checked_as_the_mode_says() -> Result<()> {
    let folder = tempfile::tempdir()?;
    issue(folder.path(), "wrong", "DNS:elsewhere.example")?;
    issue(folder.path(), "right", "DNS:elsewhere.example,IP:127.0.0.2")?;
    for file in ["server.crt", "server.key"] {
        give(&folder.path().join(file))?;
    }
    run(Command::new("chmod").args(["a+rx"]).arg(folder.path()))?;
    run(Command::new("chmod").args(["600"]).arg(folder.path().join("server.key")))?;
    let path = |file: &str| folder.path().join(file).display().to_string();
    let (certificate, key) = (path("server.crt"), path("server.key"));
    let server = Postgres::start(&[
        "-c",
        "ssl=on",
        "-c",
        &format!("ssl_cert_file={certificate}"),
        "-c",
        &format!("ssl_key_file={key}"),
    ])?;
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

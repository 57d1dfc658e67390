//! Which versions were measured, as each program says itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tenure_testkit::servers::{place, postgres};

/// A name and a version each.
pub(crate) fn all() -> Result<Vec<(&'static str, String)>> {
    let python = place::python()?;
    let rustc = said("rustc".as_ref(), &["--version"])?;
    let tools = [
        ("Redis", said("redis-server".as_ref(), &["--version"])?),
        ("PostgreSQL", said(&postgres::binary("postgres")?, &["--version"])?),
        ("NATS", said(&python.join("bin/nats-server"), &["--version"])?),
        ("etcd", said("etcd".as_ref(), &["--version"])?),
        ("SeaweedFS", said(&python.join("bin/weed"), &["version"])?),
        ("rustc", rustc),
    ];
    let mut versions = vec![
        ("tenure", env!("CARGO_PKG_VERSION").to_owned()),
        ("SQLite", rusqlite::version().to_owned()),
    ];
    for (name, said) in tools {
        let version = number(&said).with_context(|| format!("{name}: no version in {said:?}"))?;
        versions.push((name, version.to_owned()));
    }
    Ok(versions)
}

fn said(program: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("{} cannot be started", program.display()))?;
    ensure!(output.status.success(), "{}: {}", program.display(), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// The first word that begins like a version: `7.0.15`, `v=7.0.15` or `v2.15.1`.
fn number(said: &str) -> Option<&str> {
    let words = said.split_whitespace().map(|word| word.trim_start_matches(['v', '=']));
    let is_version =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    words.into_iter().find(is_version)
}

//! The bare library stays light: whoever wants one store must not pay for the others.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{command, output};

/// What the library may never pull in without a feature.
const HEAVY: &[&str] = &[
    "async-nats",
    "axum",
    "chrono",
    "clap",
    "hyper",
    "libsqlite3-sys",
    "native-tls",
    "openssl",
    "object_store",
    "openssl-sys",
    "prost",
    "redis",
    "regex",
    "reqwest",
    "ring",
    "rusqlite",
    "rustls",
    "serde_json",
    "tokio-postgres",
    "tonic",
    "tracing-subscriber",
    "url",
];

/// A little above the present number, so that growth is a decision and an update is not.
const CRATES_MAX: usize = 38;

pub(crate) fn check(root: &Path) -> Result<()> {
    let words = "cargo tree -p tenure --no-default-features -e normal --prefix none";
    println!("$ {words}");
    let tree = output(&mut command(root, words))?;
    let tree = String::from_utf8(tree).context("cargo tree printed something else than text")?;
    let crates = distinct(&tree);
    println!("tenure without features stands on {} crates (at most {CRATES_MAX})", crates.len());
    judge(&crates)
}

/// The crates of a printed tree without the first, which is the library itself.
fn distinct(tree: &str) -> BTreeSet<&str> {
    let lines = tree.lines().skip(1).map(|line| line.strip_suffix(" (*)").unwrap_or(line));
    lines.map(str::trim).filter(|line| !line.is_empty()).collect()
}

fn judge(crates: &BTreeSet<&str>) -> Result<()> {
    let heavy: Vec<_> = crates
        .iter()
        .filter(|line| line.split(' ').next().is_some_and(|name| HEAVY.contains(&name)))
        .copied()
        .collect();
    if !heavy.is_empty() {
        bail!("tenure without features pulls in {}", heavy.join(", "));
    }
    if crates.len() > CRATES_MAX {
        bail!("tenure without features stands on {} crates, over {CRATES_MAX}", crates.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_counts_once_and_the_library_not_at_all() {
        let tree = "tenure v0.1.0 (/x)\nquote v1.0.0\nsyn v3.0.0\nquote v1.0.0 (*)\n\n";
        assert_eq!(distinct(tree), BTreeSet::from(["quote v1.0.0", "syn v3.0.0"]));
    }

    #[test]
    fn heavy_crates_are_refused_by_their_whole_name() {
        let error = judge(&BTreeSet::from(["rusqlite v0.41.0"])).unwrap_err();
        assert!(error.to_string().contains("rusqlite v0.41.0"), "{error}");
        judge(&BTreeSet::from(["regex-lite v0.1.0"])).unwrap();
    }

    #[test]
    fn too_many_crates_are_refused() {
        let names: Vec<String> = (0..=CRATES_MAX).map(|n| format!("c{n} v1.0.0")).collect();
        let mut crates: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        judge(&crates).unwrap_err();
        crates.pop_first();
        judge(&crates).unwrap();
    }
}

//! Where `cargo xtask test` puts the servers that are not packages of the system.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// What came from `PyPI`.
///
/// # Errors
/// When nothing was installed.
pub fn python() -> Result<PathBuf> {
    part("python")
}

/// What came from npm: the folder that holds `node_modules`.
///
/// # Errors
/// When nothing was installed.
pub fn node() -> Result<PathBuf> {
    part("node")
}

fn part(name: &str) -> Result<PathBuf> {
    let here = std::env::current_exe().context("this program has no path")?;
    let target = here.ancestors().find(|folder| folder.join("servers").is_dir());
    let target = target.context("no servers are installed: run `cargo xtask test` once")?;
    let folder = target.join("servers").join(name);
    ensure!(folder.is_dir(), "servers/{name} is not installed: run `cargo xtask test` once");
    Ok(folder)
}

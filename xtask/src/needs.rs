//! What the tests need on this machine beyond Rust, and how to install it.
//!
//! To need one more thing, add a row to [`NEEDS`]. To install from one more place (`PyPI`, npm, a
//! download), add a variant to [`Package`].

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{command, output, run, succeeds};

const NEEDS: &[Need] = &[
    Need {
        name: "a C compiler with the C library's headers (SQLite is built from source)",
        // Headers are asked for, because a linker alone would not be enough.
        probe: "cc -x c -fsyntax-only -include stdio.h /dev/null",
        package: Package::Debian("gcc libc6-dev"),
    },
    Need { name: "rustfmt", probe: "cargo fmt --version", package: Package::Rustup("rustfmt") },
    Need { name: "clippy", probe: "cargo clippy --version", package: Package::Rustup("clippy") },
];

#[derive(Debug)]
struct Need {
    name: &'static str,
    /// A command that succeeds exactly when the thing is there and works.
    probe: &'static str,
    package: Package,
}

/// Where a missing thing comes from.
#[derive(Debug)]
enum Package {
    /// Debian packages, separated by spaces.
    Debian(&'static str),
    /// A component of the Rust toolchain.
    Rustup(&'static str),
}

/// Installs what is missing. Nothing is skipped: what cannot be installed is an error.
pub(crate) fn install(root: &Path) -> Result<()> {
    for need in NEEDS {
        need.meet(root)?;
    }
    Ok(())
}

impl Need {
    fn meet(&self, root: &Path) -> Result<()> {
        if self.is_met(root) {
            println!("there: {}", self.name);
            return Ok(());
        }
        println!("missing: {}", self.name);
        self.package.install(root).with_context(|| format!("missing: {}", self.name))?;
        ensure!(self.is_met(root), "installed, but `{}` still fails", self.probe);
        Ok(())
    }

    fn is_met(&self, root: &Path) -> bool {
        succeeds(&mut command(root, self.probe))
    }
}

impl Package {
    fn install(&self, root: &Path) -> Result<()> {
        match self {
            Self::Debian(packages) => install_debian(root, packages),
            Self::Rustup(component) => {
                run(&mut command(root, &format!("rustup component add {component}")))
            }
        }
    }
}

fn install_debian(root: &Path, packages: &str) -> Result<()> {
    if !succeeds(&mut command(root, "apt-get --version")) {
        bail!("there is no apt-get here: install what Debian calls `{packages}`, then run again");
    }
    if output(&mut command(root, "id -u"))?.trim_ascii() != b"0" {
        bail!("run `sudo apt-get install {packages}`, then run again");
    }
    let words = format!("apt-get install --yes --no-install-recommends {packages}");
    let mut install = command(root, &words);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    if run(&mut install).is_ok() {
        return Ok(());
    }
    // The package lists may be absent or old.
    run(&mut command(root, "apt-get update"))?;
    run(&mut install)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed() {
        let need = Need { name: "true", probe: "true", package: Package::Debian("no-such") };
        need.meet(Path::new("/")).unwrap();
    }

    #[test]
    fn a_probe_that_fails_or_cannot_start_means_missing() {
        for probe in ["false", "tenure-no-such-program"] {
            let need = Need { name: "it", probe, package: Package::Debian("no-such") };
            assert!(!need.is_met(Path::new("/")), "{probe}");
        }
    }
}

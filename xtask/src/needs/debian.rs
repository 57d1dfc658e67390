//! Packages of the system. A package that starts its server at once must not do so here: the tests
//! start what they need, and nobody asked for more.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{command, output, run, succeeds};

/// Asked by every package before it starts a service; 101 means no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

pub(super) fn install(root: &Path, packages: &str) -> Result<()> {
    if !succeeds(&mut command(root, "apt-get --version")) {
        bail!("there is no apt-get here: install what Debian calls `{packages}`");
    }
    if output(&mut command(root, "id -u"))?.trim_ascii() != b"0" {
        bail!("run `sudo apt-get install --no-install-recommends {packages}`");
    }
    let _policy = NoServices::begin(Path::new(POLICY))?;
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

/// While this stands, no package starts a service. A policy that is already there is left alone.
#[derive(Debug)]
struct NoServices<'a> {
    written: Option<&'a Path>,
}

impl<'a> NoServices<'a> {
    fn begin(policy: &'a Path) -> Result<Self> {
        if policy.exists() {
            return Ok(Self { written: None });
        }
        let refuse = || {
            fs::write(policy, "#!/bin/sh\nexit 101\n")?;
            fs::set_permissions(policy, fs::Permissions::from_mode(0o755))
        };
        refuse().with_context(|| format!("{} cannot be written", policy.display()))?;
        Ok(Self { written: Some(policy) })
    }
}

impl Drop for NoServices<'_> {
    fn drop(&mut self) {
        if let Some(policy) = self.written
            && let Err(error) = fs::remove_file(policy)
        {
            eprintln!("remove {} by hand: {error}", policy.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_refused_only_meanwhile() {
        let name = format!("tenure-policy-{}", std::process::id());
        let policy = std::env::temp_dir().join(name);
        {
            let _policy = NoServices::begin(&policy).unwrap();
            let answer = command(Path::new("/"), &policy.to_string_lossy()).status().unwrap();
            assert_eq!(answer.code(), Some(101));
        }
        assert!(!policy.exists());

        fs::write(&policy, "of someone else").unwrap();
        drop(NoServices::begin(&policy).unwrap());
        assert_eq!(fs::read_to_string(&policy).unwrap(), "of someone else");
        fs::remove_file(&policy).unwrap();
    }
}

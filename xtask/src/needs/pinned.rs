//! Servers from `PyPI` and npm, pinned by version and hash in `xtask/servers`. They go into the
//! target folder, together with a copy of the list: as long as it is the same, they are current.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Place;
use crate::command::run;

/// What `servers/python/bin` and `servers/python` hold.
pub(super) const PYTHON: Pinned =
    Pinned { folder: "python", lists: &["requirements.txt"], install: pip };

/// What `servers/node/node_modules` holds.
pub(super) const NODE: Pinned =
    Pinned { folder: "node", lists: &["package.json", "package-lock.json"], install: npm };

#[derive(Debug)]
pub(super) struct Pinned {
    /// Its part of the folder of servers.
    folder: &'static str,
    /// Its files in `xtask/servers`.
    lists: &'static [&'static str],
    /// Installs by the lists in a folder into that folder.
    install: fn(&Path) -> Command,
}

impl PartialEq for Pinned {
    fn eq(&self, other: &Self) -> bool {
        self.folder == other.folder
    }
}

impl Pinned {
    /// Whether what was installed is what the lists name today.
    pub(super) fn is_current(&self, place: &Place) -> bool {
        let installed = place.servers.join(self.folder);
        self.lists.iter().all(|list| {
            let wanted = fs::read(place.root.join("xtask/servers").join(list)).ok();
            wanted.is_some() && wanted == fs::read(installed.join(list)).ok()
        })
    }

    /// Installs beside the old folder and then replaces it: half an installation is never taken
    /// for a whole one.
    pub(super) fn install(&self, place: &Place) -> Result<()> {
        let folder = place.servers.join(self.folder);
        let fresh = place.servers.join(format!("{}.new", self.folder));
        remove(&fresh)?;
        fs::create_dir(&fresh)?;
        for list in self.lists {
            fs::copy(place.root.join("xtask/servers").join(list), fresh.join(list))
                .with_context(|| format!("xtask/servers/{list}"))?;
        }
        run(&mut (self.install)(&fresh))?;
        let old = place.servers.join(format!("{}.old", self.folder));
        remove(&old)?;
        if folder.exists() {
            fs::rename(&folder, &old)?;
        }
        fs::rename(&fresh, &folder).with_context(|| format!("{}", folder.display()))?;
        remove(&old)
    }
}

fn pip(folder: &Path) -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--target"])
        .arg(folder)
        .arg("-r")
        .arg(folder.join("requirements.txt"))
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PIP_ROOT_USER_ACTION", "ignore");
    pip
}

/// Without the packages' own scripts, which would run anything.
fn npm(folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(folder);
    npm
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn place(name: &str) -> (Folder, Place) {
        let folder = std::env::temp_dir().join(format!("tenure-{name}-{}", std::process::id()));
        let place = Place { root: folder.join("root"), servers: folder.join("servers") };
        fs::create_dir_all(place.root.join("xtask/servers")).unwrap();
        fs::create_dir_all(&place.servers).unwrap();
        fs::write(place.root.join("xtask/servers/list"), "one").unwrap();
        (Folder(folder), place)
    }

    fn touch(folder: &Path) -> Command {
        let mut touch = Command::new("touch");
        touch.arg(folder.join("installed"));
        touch
    }

    #[test]
    fn a_changed_list_makes_an_installation_old() {
        let (_folder, place) = place("changed-list");
        let pinned = Pinned { folder: "it", lists: &["list"], install: touch };
        assert!(!pinned.is_current(&place));
        pinned.install(&place).unwrap();
        assert!(pinned.is_current(&place) && place.servers.join("it/installed").exists());
        fs::write(place.root.join("xtask/servers/list"), "two").unwrap();
        assert!(!pinned.is_current(&place));
        pinned.install(&place).unwrap();
        assert!(pinned.is_current(&place));
    }

    #[test]
    fn an_installation_that_failed_leaves_the_old_one_and_is_not_current() {
        let (_folder, place) = place("failed-install");
        Pinned { folder: "it", lists: &["list"], install: touch }.install(&place).unwrap();
        fs::write(place.root.join("xtask/servers/list"), "two").unwrap();
        let failing = Pinned { folder: "it", lists: &["list"], install: |_| Command::new("false") };
        failing.install(&place).unwrap_err();
        assert!(!failing.is_current(&place) && place.servers.join("it/installed").exists());
    }

    /// The lists of this repository pin everything, and name no host.
    #[test]
    fn the_lists_pin_by_hash_and_name_no_host() {
        let requirements = include_str!("../../servers/requirements.txt");
        let pins = requirements.lines().filter(|line| line.contains("==")).count();
        let followed = requirements.matches(" \\\n    --hash=sha256:").count();
        assert!(pins > 0 && followed >= pins, "{pins} pins, {followed} hashes");
        let lock = include_str!("../../servers/package-lock.json");
        let packages = lock.matches("\n    \"node_modules/").count();
        assert_eq!(lock.matches("\n      \"integrity\": \"sha512-").count(), packages);
        assert!(!lock.contains("\"resolved\"") && !requirements.contains("://"));
    }
}

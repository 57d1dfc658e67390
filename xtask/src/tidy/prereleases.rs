//! What we depend on is released.

use std::collections::HashSet;

use super::Finding;
use super::tree::Tree;
use crate::manifest::{locked, table};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (Some(manifest), Some(lock)) = (tree.file("Cargo.toml"), tree.file("Cargo.lock")) else {
        return Vec::new();
    };
    let direct: HashSet<&str> =
        table(manifest.text(), "workspace.dependencies").iter().map(|entry| entry.key).collect();
    locked(lock.text())
        .into_iter()
        .filter(|(name, version, _)| direct.contains(name) && is_prerelease(version))
        .map(|(name, version, line)| {
            Finding::new(lock, line, format!("`{name}` is a pre-release, {version}"))
        })
        .collect()
}

/// What follows a `+` is no part of the version.
fn is_prerelease(version: &str) -> bool {
    version.split('+').next().is_some_and(|version| version.contains('-'))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn versions_with_a_dash_are_not_released() {
        for version in ["1.0.0-rc.1", "0.1.0-alpha", "2.0.0-dev+5"] {
            assert!(is_prerelease(version), "{version}");
        }
        for version in ["1.0.0", "0.11.0+wasi-snapshot"] {
            assert!(!is_prerelease(version), "{version}");
        }
    }

    #[test]
    fn only_direct_dependencies_count() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0-rc.1\"\n\n\
                    [[package]]\nname = \"b\"\nversion = \"1.0.0-rc.1\"\n";
        let manifest = "[workspace.dependencies]\nb = { version = \"1.0.0-rc.1\" }\n";
        let files = [("Cargo.toml", manifest), ("Cargo.lock", lock)];
        assert_eq!(places(check, &files), ["Cargo.lock:7"]);
    }
}

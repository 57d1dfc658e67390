//! The target folder, for what outlives a run and belongs to no commit.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{command, output};

/// Cargo is asked, because a variable, a setting or a default may name it.
pub(crate) fn folder(root: &Path) -> Result<PathBuf> {
    let metadata = output(&mut command(root, "cargo metadata --format-version 1 --no-deps"))?;
    let metadata = String::from_utf8(metadata).context("cargo metadata is not text")?;
    read(&metadata).map(PathBuf::from).context("cargo metadata names no target folder")
}

fn read(metadata: &str) -> Option<&str> {
    let (_, after) = metadata.split_once("\"target_directory\":\"")?;
    after.split_once('"').map(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_folder_is_what_cargo_says() {
        let metadata = r#"{"packages":[],"target_directory":"/a/b","version":1}"#;
        assert_eq!(read(metadata), Some("/a/b"));
        assert_eq!(read("{}"), None);
    }
}

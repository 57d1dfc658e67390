//! The files of the repository, as git sees them.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result};

use super::rust::Source;
use crate::command::{command, output};

/// Every file that is tracked or could be: what is ignored is not here.
#[derive(Debug)]
pub(super) struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let words = "git ls-files -z --cached --others --exclude-standard";
        let listing = output(&mut command(root, words))?;
        let listing = String::from_utf8(listing).context("a file name is not UTF-8")?;
        let mut files = BTreeMap::new();
        for path in listing.split_terminator('\0') {
            if path.contains("/generated/") {
                // Made by a test, which also sees to it that nobody changes it by hand.
                continue;
            }
            let bytes = match fs::read(root.join(path)) {
                Ok(bytes) => bytes,
                // Tracked, but just deleted.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
            };
            // What is not UTF-8 is no text: it exists, and holds nothing to check.
            let text = String::from_utf8(bytes).unwrap_or_default();
            files.insert(path.to_owned(), File::new(path, text));
        }
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), File::new(path, (*text).to_owned())))
            .collect();
        Self { files }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// The Rust files, each with its source read.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files().filter_map(|file| file.rust.as_ref().map(|source| (file, source)))
    }

    pub(super) fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files().filter(|file| file.has_extension("md"))
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Whether there is such a file or a folder with files in it. The empty path is the root.
    pub(super) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .keys()
                .any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

#[derive(Debug)]
pub(super) struct File {
    path: String,
    text: String,
    rust: Option<Source>,
}

impl File {
    fn new(path: &str, text: String) -> Self {
        let mut file = Self { path: path.to_owned(), text, rust: None };
        if file.has_extension("rs") {
            file.rust = Some(Source::read(&file.text));
        }
        file
    }

    /// From the root of the repository, with `/` between its parts.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The lines, numbered from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The folder that the file is in; empty at the root.
    pub(super) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn has_extension(&self, extension: &str) -> bool {
        self.name().rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::of(&[("crates/tenure/src/lib.rs", "")]);
        for path in ["", "crates", "crates/tenure/", "crates/tenure/src/lib.rs"] {
            assert!(tree.contains(path), "{path}");
        }
        for path in ["crate", "crates/ten", "crates/tenure/src/lib"] {
            assert!(!tree.contains(path), "{path}");
        }
    }
}

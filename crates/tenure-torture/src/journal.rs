//! Lines of JSON in a file, one for each thing that happened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file that lines are added to. Whoever is killed meanwhile leaves one torn line at the most.
#[derive(Debug)]
pub(crate) struct Journal(File);

impl Journal {
    /// Adds to the file at `path`, which is made if it is not there.
    pub(crate) fn append(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Adds a line.
    pub(crate) fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.0.write_all(&bytes)
    }
}

/// The lines of a file. A last one that was torn is left out; any other that cannot be read is an
/// error.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let bytes = fs::read(path)?;
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    whole.map(|line| Ok(serde_json::from_slice(line)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_and_a_torn_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let mut journal = Journal::append(&path).unwrap();
        journal.write(&1).unwrap();
        journal.write(&2).unwrap();
        fs::write(&path, [fs::read(&path).unwrap(), b"3".to_vec()].concat()).unwrap();
        assert_eq!(read::<u64>(&path).unwrap(), [1, 2]);
    }
}

//! A server of ours that panics has failed, whatever its clients were told.

use std::fs;
use std::io::{ErrorKind, Result};
use std::path::Path;

use crate::run::SERVER_LOG;

/// What a program in Rust says when it panics.
const PANIC: &str = "panicked at ";

/// Finds panics in what the server said. Not every store has one.
pub(crate) fn check(folder: &Path) -> Result<Vec<String>> {
    let log = match fs::read(folder.join(SERVER_LOG)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        log => log?,
    };
    let log = String::from_utf8_lossy(&log);
    Ok(log.lines().filter(|line| line.contains(PANIC)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_panicked_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check(folder.path()).unwrap().is_empty());
        let told = "thread 'a' (7) panicked at src/a.rs:1:2:";
        fs::write(folder.path().join(SERVER_LOG), format!("listening\n{told}\nno\n")).unwrap();
        assert_eq!(check(folder.path()).unwrap(), [told]);
    }
}

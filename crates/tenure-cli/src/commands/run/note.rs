//! What others see of the command.

use std::ffi::OsString;
use std::path::Path;

/// How many characters of a command's name others see.
const CHARACTERS_MAX: usize = 64;

/// The command's name. Its arguments may be secret.
pub(crate) fn note(command: &[OsString]) -> Option<String> {
    let name = Path::new(command.first()?).file_name()?.to_string_lossy();
    Some(name.chars().filter(|c| !c.is_control()).take(CHARACTERS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_is_the_name_and_no_argument() {
        let note = |text: &str| note(&[text.into(), "--password=hunter2".into()]);
        assert_eq!(note("/usr/bin/pg_dump"), Some("pg_dump".into()));
        assert_eq!(note("a\u{1b}b"), Some("ab".into()));
        assert_eq!(note(&"x".repeat(500)).map(|note| note.len()), Some(CHARACTERS_MAX));
        assert_eq!(note("/"), None);
    }
}

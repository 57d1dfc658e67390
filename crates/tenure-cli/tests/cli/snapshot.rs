//! Texts that are kept in files, word for word. `UPDATE=1` writes the files anew.

use std::path::Path;

/// Fails unless the text is the one in the file.
pub(crate) fn assert_kept(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{name} differs: look at it, then run with UPDATE=1");
}

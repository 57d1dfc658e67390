//! Reading `Cargo.toml` and `Cargo.lock` by lines: enough TOML for the files of this repository.

/// The keys of one table with the line (from 1) and the first line of the value of each.
pub(crate) fn table<'a>(manifest: &'a str, name: &str) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    let mut inside = false;
    let mut open_brackets = 0;
    for (index, line) in manifest.lines().enumerate() {
        let line = without_comment(line);
        if open_brackets == 0 {
            if let Some(header) = line.strip_prefix('[') {
                inside = header.strip_suffix(']') == Some(name);
                continue;
            }
            if let Some((key, value)) = line.split_once('=').filter(|_| inside) {
                let key = key.trim().trim_matches('"');
                entries.push(Entry { line: index + 1, key, value: value.trim() });
            }
        }
        open_brackets += line.matches('[').count();
        open_brackets -= line.matches(']').count().min(open_brackets);
    }
    entries
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) line: usize,
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
}

/// Name, version and line of the version of each package in `Cargo.lock`.
pub(crate) fn locked(lock: &str) -> Vec<(&str, &str, usize)> {
    let mut packages = Vec::new();
    let mut name = "";
    for (index, line) in lock.lines().enumerate() {
        match line.split_once(" = ") {
            Some(("name", value)) => name = value.trim_matches('"'),
            Some(("version", value)) if !name.is_empty() => {
                packages.push((name, value.trim_matches('"'), index + 1));
                name = "";
            }
            _ => {}
        }
    }
    packages
}

/// No value in our manifests holds a `#`.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
[features]
default = ["file"] # the embedded one
# a comment = not a key
file = [
    "dep:rusqlite",
]
"planted-bugs" = []

[dependencies]
tokio = { workspace = true, features = ["rt"] }
tenure.workspace = true
"#;

    #[test]
    fn a_table_ends_where_the_next_begins() {
        let keys: Vec<_> = table(MANIFEST, "features").iter().map(|entry| entry.key).collect();
        assert_eq!(keys, ["default", "file", "planted-bugs"]);
        let lines: Vec<_> = table(MANIFEST, "features").iter().map(|entry| entry.line).collect();
        assert_eq!(lines, [3, 5, 8]);
        assert_eq!(table(MANIFEST, "dependencies")[1].key, "tenure.workspace");
        assert!(table(MANIFEST, "lints").is_empty());
    }

    #[test]
    fn the_version_of_the_lock_file_itself_is_no_package() {
        let lock = "version = 4\n\n[[package]]\nname = \"anyhow\"\nversion = \"1.0.1\"\n";
        assert_eq!(locked(lock), [("anyhow", "1.0.1", 5)]);
    }
}

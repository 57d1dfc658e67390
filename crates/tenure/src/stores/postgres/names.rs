//! The names of the tables and what makes them.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::key::Key;

/// What the table's comment says; another number is another layout.
pub(super) const FORMAT: &str = "tenure leases, format 1";

/// PostgreSQL cuts longer names off without a word.
const NAME_BYTES_MAX: usize = 63;
/// What the longest name made from the table's adds to it.
const SUFFIX_BYTES: usize = "_fence".len();

/// In how many groups the keys are that someone may wait for. A group that nobody waits for is
/// released without a notification; few groups keep the server's lock table small.
const GROUPS: u8 = 64;

/// The schema and the table of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    schema: String,
    table: String,
}

impl Default for Names {
    fn default() -> Self {
        Self { schema: "tenure".to_owned(), table: "lease".to_owned() }
    }
}

impl Names {
    pub(super) fn new(schema: &str, table: &str) -> Result<Self> {
        for (what, name, max) in
            [("schema", schema, NAME_BYTES_MAX), ("table", table, NAME_BYTES_MAX - SUFFIX_BYTES)]
        {
            if name.is_empty() || name.len() > max || name.chars().any(char::is_control) {
                return Err(Error::invalid(format!(
                    "{what} must have 1 to {max} bytes without control characters, this one has {}",
                    name.len()
                )));
            }
        }
        Ok(Self { schema: schema.to_owned(), table: table.to_owned() })
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    pub(super) fn table(&self) -> &str {
        &self.table
    }

    fn qualified(&self, suffix: &str) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&format!("{}{suffix}", self.table)))
    }

    /// The table of leases, ready to stand in a statement.
    pub(super) fn leases(&self) -> String {
        self.qualified("")
    }

    /// The table of everything else: fingerprints, and when the last sweep was.
    pub(super) fn meta(&self) -> String {
        self.qualified("_meta")
    }

    /// The sequence that fences come from.
    pub(super) fn fences(&self) -> String {
        self.qualified("_fence")
    }

    /// The channel on which a release of `key` is told.
    pub(super) fn channel(&self, key: &Key) -> String {
        format!("tenure_{}", hex(&self.digest(key.as_str())[..16]))
    }

    /// The advisory lock of the group that `key` is in: held shared by who waits for one of it.
    pub(super) fn group(&self, key: &Key) -> (i32, i32) {
        let group = self.digest(key.as_str())[16] % GROUPS;
        (self.space(), i32::from(group))
    }

    /// The advisory lock under which tables are made: one for the schema, which is made as well.
    pub(super) fn setup_lock(&self) -> (i32, i32) {
        let schema = Self { schema: self.schema.clone(), table: String::new() };
        (schema.space(), -1)
    }

    /// The number of this table among the advisory locks.
    fn space(&self) -> i32 {
        let digest = self.digest("");
        i32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
    }

    fn digest(&self, key: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [&self.schema, &self.table, key] {
            // No name and no key holds a zero byte.
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        digest.finalize().into()
    }

    /// Everything that makes the tables, to be run by someone who may.
    pub(super) fn setup(&self) -> String {
        let schema = quoted(&self.schema);
        format!("CREATE SCHEMA IF NOT EXISTS {schema};\n{}", self.tables())
    }

    /// What makes the tables in a schema that is there.
    ///
    /// Rows have room beside them, so that an update stays on its page and needs no index entry.
    pub(super) fn tables(&self) -> String {
        let (leases, meta, fences) = (self.leases(), self.meta(), self.fences());
        format!(
            r#"CREATE SEQUENCE IF NOT EXISTS {fences};
CREATE TABLE IF NOT EXISTS {meta} (
    name        text COLLATE "C" PRIMARY KEY,
    value       text NOT NULL
);
CREATE TABLE IF NOT EXISTS {leases} (
    key         text COLLATE "C" PRIMARY KEY,
    owner       text,
    holder      text NOT NULL,
    fence       bigint NOT NULL,
    ttl_ms      bigint NOT NULL,
    granted_at  timestamptz NOT NULL,
    deadline    timestamptz NOT NULL,
    released_at timestamptz
) WITH (fillfactor = 50);
COMMENT ON TABLE {leases} IS '{FORMAT}';
"#
        )
    }

    /// What a role needs that did not make the tables.
    pub(super) fn grants(&self, role: &str) -> String {
        let (leases, meta, fences) = (self.leases(), self.meta(), self.fences());
        let (schema, role) = (quoted(&self.schema), quoted(role));
        format!(
            "GRANT USAGE ON SCHEMA {schema} TO {role};\n\
             GRANT SELECT, INSERT, UPDATE, DELETE ON {leases}, {meta} TO {role};\n\
             GRANT USAGE ON SEQUENCE {fences} TO {role};\n"
        )
    }
}

/// A name as PostgreSQL reads it back unchanged.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as PostgreSQL reads it back unchanged, whatever `standard_conforming_strings` says.
pub(super) fn literal(text: &str) -> String {
    format!(" E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_a_statement() {
        let names = Names::new("a\"b", "c'; DROP TABLE d; --").unwrap();
        assert_eq!(names.leases(), "\"a\"\"b\".\"c'; DROP TABLE d; --\"");
        assert_eq!(literal(&names.fences()), " E'\"a\"\"b\".\"c''; DROP TABLE d; --_fence\"'");
        assert_eq!(literal("\\'"), " E'\\\\'''");
    }

    #[test]
    fn names_that_would_be_cut_off_are_refused_with_the_size() {
        assert!(Names::new(&"s".repeat(63), &"t".repeat(57)).is_ok());
        let error = Names::new("s", &"t".repeat(58)).unwrap_err().to_string();
        assert!(error.contains("57") && error.contains("58"), "{error}");
        assert!(Names::new("", "t").is_err() && Names::new("s", "t\0").is_err());
    }

    #[test]
    fn each_key_of_each_table_has_its_channel() {
        let (one, two) = (Names::new("a", "bc").unwrap(), Names::new("ab", "c").unwrap());
        let key = Key::new("k").unwrap();
        assert_ne!(one.channel(&key), two.channel(&key));
        assert!(one.channel(&key).len() <= NAME_BYTES_MAX);
        assert_ne!(one.space(), two.space());
    }
}

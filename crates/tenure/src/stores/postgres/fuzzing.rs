//! Rows that PostgreSQL answers with, and texts as it reads them in a statement, for the fuzz
//! targets.

use tokio_postgres::types::{FromSql, Type};

use super::names::{literal, quoted};
use super::rows::{Answer, Columns, broken};
use crate::error::Result;
use crate::key::Key;
use crate::lease::Lease;

/// The columns of a row, in order.
const COLUMNS: [(&str, Type); 10] = [
    ("done", Type::BOOL),
    ("mine", Type::BOOL),
    ("key", Type::TEXT),
    ("owner", Type::TEXT),
    ("holder", Type::TEXT),
    ("fence", Type::INT8),
    ("ttl_ms", Type::INT8),
    ("granted_at", Type::TIMESTAMPTZ),
    ("deadline", Type::TIMESTAMPTZ),
    ("now", Type::TIMESTAMPTZ),
];

/// The values of a row, as they come over the wire.
#[derive(Clone, Debug, Default)]
pub struct PostgresRow {
    /// In the order of a row: done, mine, key, owner, holder, fence, ttl, granted, deadline, now.
    pub values: [Option<Vec<u8>>; 10],
}

impl Columns for PostgresRow {
    fn get<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T> {
        let missing = || broken(std::io::Error::from(std::io::ErrorKind::NotFound));
        let at = COLUMNS.iter().position(|(column, _)| *column == name).ok_or_else(missing)?;
        let value = T::from_sql_nullable(&COLUMNS[at].1, self.values[at].as_deref());
        value.map_err(|error| broken(std::io::Error::other(error)))
    }
}

/// Reads a row.
///
/// # Errors
/// As the store gets them.
pub fn postgres_row(row: PostgresRow) -> Result<Lease> {
    let answer = Answer::new(row)?;
    let key: Key = answer.key()?;
    answer.lease(&key, answer.owner()?)
}

/// A name in a statement.
#[must_use]
pub fn postgres_name(name: &str) -> String {
    quoted(name)
}

/// A text in a statement.
#[must_use]
pub fn postgres_literal(text: &str) -> String {
    literal(text)
}

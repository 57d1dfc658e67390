//! Texts as PostgreSQL reads them in a statement, for the fuzz targets.

use super::names::{literal, quoted};

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

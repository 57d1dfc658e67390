//! The rows of the file, for the fuzz targets.

use rusqlite::{Connection, params_from_iter};

pub use rusqlite::types::Value as SqlValue;

use super::rows;
use crate::rule::Record;

/// A database that answers with the rows it is given.
#[derive(Debug)]
pub struct FileRows(Connection);

impl FileRows {
    /// One without a file.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn new() -> rusqlite::Result<Self> {
        Connection::open_in_memory().map(Self)
    }

    /// The record of a row with these values: owner, holder, fence, ttl, deadline and when it was
    /// granted. `None` when that is no row of this store.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn read(&self, values: &[SqlValue; 6]) -> rusqlite::Result<Option<Record>> {
        let mut select = self.0.prepare("SELECT ?1, ?2, ?3, ?4, ?5, ?6")?;
        select.query_row(params_from_iter(values), |row| Ok(rows::record(row).ok()))
    }
}

//! Opening the database: what it must be, and how it becomes one of ours.

use std::cmp::Ordering;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::boot::Boot;
use super::error::{Fault, damaged, is_busy, replaced};
use super::patience::{OPEN_LIMIT, Patience, busy_handler};
use super::place::{Place, Stamp};
use crate::error::{Error, ErrorKind, Result};

/// "Tenu", in the header of every file of ours.
pub(super) const APPLICATION_ID: i32 = 0x5465_6e75;

/// The version of the tables below.
pub(super) const VERSION: i32 = 1;

const TABLES: &str = "
    CREATE TABLE leases (
        key TEXT PRIMARY KEY NOT NULL,
        owner TEXT NOT NULL,
        holder TEXT NOT NULL,
        fence INTEGER NOT NULL,
        ttl_ns INTEGER NOT NULL,
        deadline_ns INTEGER NOT NULL,
        granted_at_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX leases_by_deadline ON leases (deadline_ns);
    CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value ANY NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE pledges (
        namespace TEXT PRIMARY KEY NOT NULL,
        fingerprint TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO meta (name, value) VALUES ('fence', 0);
";

/// A connection that may write, and the files that it uses.
#[derive(Debug)]
pub(super) struct Link {
    pub connection: Connection,
    pub stamp: Stamp,
}

/// Opens the file at `place` and makes it one of ours, of this boot.
///
/// Safe while any number of processes do the same.
///
/// # Errors
/// `Invalid` for a database of another program, `Unsupported` for one of a newer tenure, `Damaged`
/// for a file that is no database: each is left as it was. `Mismatch` for another time namespace.
pub(super) fn open(place: &Place, boot: &Boot) -> Result<Link> {
    let mut patience = Patience::new(OPEN_LIMIT);
    loop {
        match try_open(place, boot) {
            // SQLite gives up at once where waiting for a lock could end in a deadlock.
            Err(Fault::Sqlite(error)) if is_busy(&error) && patience.nap() => {}
            other => return other.map_err(|fault| fault.explain(place.path())),
        }
    }
}

/// A connection for looking only.
pub(super) fn open_read_only(place: &Place) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(place.path(), flags)?;
    connection.busy_handler(Some(busy_handler()))?;
    Ok(connection)
}

fn try_open(place: &Place, boot: &Boot) -> Result<Link, Fault> {
    let before = place.database().ok();
    // Without CREATE: a file that has gone is not made anew behind the back of those who use it.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(place.path(), flags)?;
    connection.busy_handler(Some(busy_handler()))?;
    // Closing would write back another program's log, until the file is known to be ours.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    {
        let look = connection.unchecked_transaction()?;
        recognise(&look, place)?;
    }
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::Told(Error::new(
            ErrorKind::Unsupported,
            format!("{} is on a file system without WAL mode", place.path().display()),
        )));
    }
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
    )?;
    prepare(&mut connection, place, boot)?;
    // From here on commits are synced by `sync.rs`; SQLite still syncs when it moves the log into
    // the database.
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    let gone = || Fault::Told(replaced(place.path().display()));
    let stamp = place.stamp().map_err(|_| gone())?;
    if before != place.database().ok() {
        return Err(gone());
    }
    Ok(Link { connection, stamp })
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Ours,
    Fresh,
}

fn recognise(connection: &Connection, place: &Place) -> Result<Found, Fault> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let path = place.path().display();
    if application == i64::from(APPLICATION_ID) {
        return match version.cmp(&i64::from(VERSION)) {
            Ordering::Equal => Ok(Found::Ours),
            Ordering::Less => Err(damaged(path).into()),
            Ordering::Greater => Err(Fault::Told(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{path} was made by a newer tenure (version {version}, this one knows \
                     {VERSION}): use that one"
                ),
            ))),
        };
    }
    if application == 0 && version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(Found::Fresh);
    }
    Err(Fault::Told(Error::invalid(format!(
        "{path} is a database of another program: choose another path"
    ))))
}

fn prepare(connection: &mut Connection, place: &Place, boot: &Boot) -> Result<(), Fault> {
    let behaviour = rusqlite::TransactionBehavior::Immediate;
    let transaction = connection.transaction_with_behavior(behaviour)?;
    match recognise(&transaction, place)? {
        Found::Ours => {
            if boot.settle(&transaction, place)? {
                transaction.commit()?;
            }
        }
        Found::Fresh => {
            transaction.execute_batch(TABLES)?;
            boot.found(&transaction)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()?;
            place.sync_folder().map_err(|error| {
                let folder = place.path().display();
                Error::unavailable(format!("the folder of {folder} cannot be synced"))
                    .caused_by(error)
            })?;
        }
    }
    Ok(())
}

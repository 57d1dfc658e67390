//! Deadlines are on the boot clock: which boot they belong to, and what to do after another.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Fault, damaged};
use super::place::Place;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const TIME_NAMESPACE: &str = "/proc/self/ns/time";

/// Whose boot clock the deadlines of a file are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Boot {
    /// New after each start of the machine.
    pub id: String,
    /// Processes in two time namespaces read two boot clocks.
    pub time_namespace: String,
}

impl Boot {
    /// This process's.
    pub(super) fn current() -> Result<Self> {
        let id = std::fs::read_to_string(BOOT_ID).map_err(|error| {
            Error::unavailable(format!("{BOOT_ID} cannot be read; is /proc mounted?"))
                .caused_by(error)
        })?;
        // Kernels before 5.6 have no time namespaces, so all processes share the one clock.
        let namespace = std::fs::read_link(TIME_NAMESPACE).unwrap_or_default();
        let time_namespace = namespace.to_string_lossy().into_owned();
        Ok(Self { id: id.trim().to_owned(), time_namespace })
    }

    /// Writes this boot into a new file.
    pub(super) fn found(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT INTO meta(name, value) VALUES ('boot', ?1), ('time_namespace', ?2)";
        connection.execute(sql, [&self.id, &self.time_namespace])?;
        Ok(())
    }

    /// Makes the file's deadlines ones of this boot; says whether anything was changed.
    ///
    /// After another boot no deadline means anything any more, and the last renewals may not have
    /// reached the disk: every lease gets its full ttl again, since a ttl is a lower bound.
    pub(super) fn settle(&self, connection: &Connection, place: &Place) -> Result<bool, Fault> {
        let kept = |name: &str| {
            let sql = "SELECT value FROM meta WHERE name = ?1";
            connection.query_row(sql, [name], |row| row.get::<_, String>(0)).optional()
        };
        let path = place.path().display();
        let (Some(id), Some(time_namespace)) = (kept("boot")?, kept("time_namespace")?) else {
            return Err(damaged(path).into());
        };
        if id == self.id && time_namespace == self.time_namespace {
            return Ok(false);
        }
        if id == self.id {
            return Err(Fault::Told(Error::new(
                ErrorKind::Mismatch,
                format!(
                    "{path} is used from two time namespaces, whose clocks differ: run all its \
                     users in one"
                ),
            )));
        }
        // The machine may have crashed, which is when files break.
        let verdict: String =
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if verdict != "ok" {
            return Err(damaged(path).into());
        }
        let now = i64::try_from(SystemClock.now().as_nanos()).unwrap_or(i64::MAX);
        connection.execute("UPDATE leases SET deadline_ns = ?1 + ttl_ns", [now])?;
        let sql = "UPDATE meta SET value = ?2 WHERE name = ?1";
        connection.execute(sql, params!["boot", self.id])?;
        connection.execute(sql, params!["time_namespace", self.time_namespace])?;
        Ok(true)
    }
}

//! What a server is worth, from its live configuration.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::error::READ_ONLY;
use super::listener::{Line, Place};
use super::pool::Pool;
use super::statements::Statement;
use crate::clock::Clock;
use crate::effect::Effect;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::random::{Random, SystemRandom};
use crate::watch::WatchHub;

const VERSION_MIN: i32 = 12_00_00;

/// What statements run in.
const ISOLATION: &str = "read committed";

/// Within this a notification arrives, or it never does.
const HEARING: Duration = Duration::from_secs(3);

/// A consumer of logical replication shows as a standby, but does not stand in for the server.
const LOOK: &str = "
    SELECT current_setting('server_version_num')::int AS number, version() AS version,
        pg_is_in_recovery() AS standby,
        current_setting('server_encoding') AS encoding,
        current_setting('default_transaction_read_only') AS read_only,
        current_setting('default_transaction_isolation') AS isolation,
        current_setting('synchronous_commit') AS synchronous_commit,
        current_setting('synchronous_standby_names') <> '' AS synchronous,
        current_setting('fsync') AS fsync,
        current_setting('full_page_writes') AS full_page_writes,
        (SELECT count(*) FROM pg_stat_replication)
            - (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical' AND active)
            AS standbys";

/// What the server says of itself; refuses one that cannot be used.
pub(super) async fn server(pool: &Pool) -> Result<Vec<Finding>> {
    let statement = Statement { sql: LOOK.to_owned(), types: &[] };
    let rows = pool.run(Effect::Read, &statement, &[]).await?;
    let seen = rows.first().and_then(Seen::read);
    let seen = seen.ok_or_else(|| {
        let text = "the server does not answer as PostgreSQL does";
        Error::new(ErrorKind::Unsupported, text)
    })?;
    seen.refuse()?;
    pool.set_plainly(seen.isolation == ISOLATION);
    Ok(seen.findings())
}

struct Seen {
    number: i32,
    version: String,
    standby: bool,
    encoding: String,
    read_only: String,
    isolation: String,
    synchronous_commit: String,
    synchronous: bool,
    fsync: String,
    full_page_writes: String,
    standbys: i64,
}

impl Seen {
    fn read(row: &Row) -> Option<Self> {
        Some(Self {
            number: row.try_get("number").ok()?,
            version: row.try_get("version").ok()?,
            standby: row.try_get("standby").ok()?,
            encoding: row.try_get("encoding").ok()?,
            read_only: row.try_get("read_only").ok()?,
            isolation: row.try_get("isolation").ok()?,
            synchronous_commit: row.try_get("synchronous_commit").ok()?,
            synchronous: row.try_get("synchronous").ok()?,
            fsync: row.try_get("fsync").ok()?,
            full_page_writes: row.try_get("full_page_writes").ok()?,
            standbys: row.try_get("standbys").ok()?,
        })
    }

    fn refuse(&self) -> Result<()> {
        let (kind, text) = if self.number < VERSION_MIN {
            let text = "PostgreSQL must be version 12 or later";
            (ErrorKind::Unsupported, format!("{text}, this is {}", self.number / 10_000))
        } else if ["CockroachDB", "-YB-", "Redshift"].iter().any(|n| self.version.contains(n)) {
            let text = "this server speaks PostgreSQL's protocol but is another database, whose \
                        locks and sequences do not behave as the store needs";
            (ErrorKind::Unsupported, text.to_owned())
        } else if self.standby || self.read_only == "on" {
            (ErrorKind::Unavailable, READ_ONLY.to_owned())
        } else if !["UTF8", "SQL_ASCII"].contains(&self.encoding.as_str()) {
            let text = "the database's encoding must be UTF8: make one with CREATE DATABASE … \
                        ENCODING 'UTF8' TEMPLATE template0";
            (ErrorKind::Unsupported, format!("{text}; this one has {}", self.encoding))
        } else {
            return Ok(());
        };
        Err(Error::new(kind, text))
    }

    fn findings(&self) -> Vec<Finding> {
        let version = self.version.split(" on ").next().unwrap_or_default();
        let mut findings =
            vec![Finding::note("version", version), Finding::wall_clock("the server's host")];
        if self.fsync == "off" {
            let text = "fsync is off: a crash of the server's machine loses or damages what stands";
            findings.push(Finding::lowering("fsync", text).remedy("set fsync = on"));
        }
        if self.full_page_writes == "off" {
            let text = "full_page_writes is off: a crash may leave pages half written";
            let remedy = "set full_page_writes = on, unless the file system writes pages whole";
            findings.push(Finding::lowering("full_page_writes", text).remedy(remedy));
        }
        if self.standbys > 0 && !self.synchronous {
            let text = format!(
                "there are {} standbys and none is synchronous: a fail-over may lose grants and \
                 set fences back",
                self.standbys
            );
            let remedy = "set synchronous_standby_names";
            findings.push(Finding::lowering("synchronous_standby_names", text).remedy(remedy));
        }
        if ["off", "local"].contains(&self.synchronous_commit.as_str()) {
            let text = format!(
                "synchronous_commit is {}; the store's own commits are synchronous all the same",
                self.synchronous_commit
            );
            findings.push(Finding::note("synchronous_commit", text));
        }
        if self.isolation != ISOLATION {
            let text = format!(
                "default_transaction_isolation is {}; the store's statements run in {ISOLATION}",
                self.isolation
            );
            findings.push(Finding::note("default_transaction_isolation", text));
        }
        findings
    }
}

/// A connection that hears notifications; `None` when there is a pooler in between which lends a
/// server to each transaction, and so to nobody who only listens.
///
/// What was heard while nothing was asked proves that the session has a server of its own.
pub(super) async fn hearing(
    pool: &Pool,
    place: &Place,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Line>> {
    let mut line = Line::open(place, WatchHub::default()).await?;
    let mut nonce = [0; 8];
    if !SystemRandom.fill(&mut nonce) {
        return Err(Error::unavailable("the operating system gave no random bytes"));
    }
    let channel = format!("tenure_probe_{:016x}", u64::from_be_bytes(nonce));
    line.listen_to_probe(&channel).await?;
    let statement = Statement {
        sql: "SELECT EXISTS (SELECT FROM pg_listening_channels() AS c WHERE c = $1) AS shared, \
              pg_notify($1, '')::text"
            .to_owned(),
        types: &[Type::TEXT],
    };
    let rows = pool.run(Effect::Read, &statement, &[&channel]).await?;
    // Another connection that listens as well is the same one to the server.
    let shared = rows.first().is_some_and(|row| row.try_get("shared").unwrap_or(true));
    let heard = !shared && line.heard_probe(&**clock, HEARING).await;
    line.forget_probe(&channel).await?;
    Ok(heard.then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn sound() -> Seen {
        Seen {
            number: 15_00_18,
            version: "PostgreSQL 15.18 on x86_64".into(),
            standby: false,
            encoding: "UTF8".into(),
            read_only: "off".into(),
            isolation: "read committed".into(),
            synchronous_commit: "on".into(),
            synchronous: false,
            fsync: "on".into(),
            full_page_writes: "on".into(),
            standbys: 0,
        }
    }

    #[test]
    fn a_sound_server_has_only_notes() {
        assert!(sound().refuse().is_ok());
        assert!(sound().findings().iter().all(|finding| finding.severity == Severity::Note));
    }

    #[test]
    fn what_may_lose_a_grant_lowers() {
        let standbys = Seen { standbys: 2, ..sound() };
        for (seen, lowers) in [
            (Seen { fsync: "off".into(), ..sound() }, true),
            (Seen { full_page_writes: "off".into(), ..sound() }, true),
            (Seen { synchronous: true, ..standbys }, false),
            (Seen { standbys: 2, ..sound() }, true),
            (Seen { synchronous_commit: "off".into(), ..sound() }, false),
        ] {
            let lowered = seen.findings().iter().any(|f| f.severity == Severity::Lowering);
            assert_eq!(lowered, lowers);
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for (seen, says) in [
            (Seen { number: 11_00_05, ..sound() }, "version 12"),
            (Seen { version: "PostgreSQL 11.2-YB-2.0".into(), ..sound() }, "another database"),
            (Seen { standby: true, ..sound() }, "name the primary"),
            (Seen { read_only: "on".into(), ..sound() }, "default_transaction_read_only"),
            (Seen { encoding: "LATIN1".into(), ..sound() }, "UTF8"),
        ] {
            let text = seen.refuse().unwrap_err().to_string();
            assert!(text.contains(says), "{text}");
        }
    }
}

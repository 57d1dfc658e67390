//! Making the tables on first use, and seeing that those that are there are ours.

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::error::harmless;
use super::names::{FORMAT, Names, literal};
use super::pool::Pool;
use super::rows::broken;
use super::statements::{Statement, floor};
use crate::effect::Effect;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;

/// From the catalogs, which everyone may read: the tables themselves may be closed to this user.
const LOOK: &str = "
    SELECT current_user::text AS role, n.oid IS NOT NULL AS schema_stands,
        l.oid IS NOT NULL AS table_stands,
        l.oid IS NOT NULL AND m.oid IS NOT NULL AND f.oid IS NOT NULL AS complete,
        obj_description(l.oid, 'pg_class') AS format,
        coalesce(l.relpersistence = 'p', false) AS logged,
        coalesce(s.seqcache = 1 AND s.seqincrement > 0 AND NOT s.seqcycle, false) AS counts,
        coalesce(has_schema_privilege(n.oid, 'USAGE')
            AND has_table_privilege(l.oid, 'SELECT') AND has_table_privilege(l.oid, 'INSERT')
            AND has_table_privilege(l.oid, 'UPDATE') AND has_table_privilege(l.oid, 'DELETE')
            AND has_table_privilege(m.oid, 'SELECT') AND has_table_privilege(m.oid, 'INSERT')
            AND has_table_privilege(m.oid, 'UPDATE')
            AND has_sequence_privilege(f.oid, 'USAGE'), false) AS allowed
    FROM (SELECT) AS one
    LEFT JOIN pg_namespace n ON n.nspname = $1
    LEFT JOIN pg_class l ON l.relnamespace = n.oid AND l.relname = $2
    LEFT JOIN pg_class m ON m.relnamespace = n.oid AND m.relname = $3
    LEFT JOIN pg_class f ON f.relnamespace = n.oid AND f.relname = $4
    LEFT JOIN pg_sequence s ON s.seqrelid = f.oid";

/// For what is granted until the statement is run that sets the sequence.
const ROOM: i64 = 1_000_000;

/// Sees that the tables are there, ours and open to this user; makes them where they are missing.
pub(super) async fn ensure(pool: &Pool, names: &Names) -> Result<Vec<Finding>> {
    let mut seen = look(pool, names).await?;
    if !seen.complete {
        seen.check_format(names)?;
        make(pool, names, &seen).await?;
        seen = look(pool, names).await?;
    }
    seen.check_format(names)?;
    if !seen.allowed {
        let text = format!(
            "this user lacks a right on the tables; run as their owner:\n{}",
            names.grants(&seen.role)
        );
        return Err(Error::new(ErrorKind::Denied, text));
    }
    if !seen.counts {
        let text = format!(
            "the sequence of the fences was changed: run ALTER SEQUENCE {} INCREMENT 1 CACHE 1 NO \
             CYCLE",
            names.fences()
        );
        return Err(Error::new(ErrorKind::Mismatch, text));
    }
    refuse_lag(pool, names).await?;
    let mut findings = Vec::new();
    if !seen.logged {
        let text = "the table is not logged: a crash of the server empties it";
        let remedy = format!("run ALTER TABLE {} SET LOGGED", names.leases());
        findings.push(Finding::lowering("relpersistence", text).remedy(remedy));
    }
    Ok(findings)
}

/// Refuses a sequence that lies behind the fences that were given: rows that were replicated one by
/// one arrive without it.
///
/// It is not raised here. That takes a right which the store has no other use for; what stands in
/// the tables is all that arrived, and whether that is all there was is for a person to know.
async fn refuse_lag(pool: &Pool, names: &Names) -> Result<()> {
    let (leases, floor) = (names.leases(), floor(&names.meta()));
    let fences = literal(&names.fences());
    // The rows are those of before the statement, and the sequence is looked at after: whoever is
    // granted meanwhile makes no lag.
    let sql = format!(
        "SELECT greatest(max(fence), {floor}, 0) AS given,
            coalesce(pg_sequence_last_value({fences}::regclass), 0) AS drawn FROM {leases}"
    );
    let rows = pool.run(Effect::Read, &Statement { sql, types: &[] }, &[]).await?;
    let [given, drawn] = ["given", "drawn"].map(|name| match rows.first() {
        Some(row) => row.try_get::<_, i64>(name).map_err(broken),
        None => Ok(0),
    });
    let (given, drawn) = (given?, drawn?);
    if drawn >= given {
        return Ok(());
    }
    let text = format!(
        "the sequence of the fences is at {drawn}, behind {given}, which was given already: was \
         the table replicated or restored without it? Run, or with a greater number if greater \
         fences were given elsewhere:\nSELECT setval({fences}, {});",
        given.saturating_add(ROOM)
    );
    Err(Error::new(ErrorKind::Mismatch, text))
}

struct Seen {
    role: String,
    schema_stands: bool,
    table_stands: bool,
    complete: bool,
    format: Option<String>,
    logged: bool,
    counts: bool,
    allowed: bool,
}

async fn look(pool: &Pool, names: &Names) -> Result<Seen> {
    const TYPES: &[Type] = &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT];
    let statement = Statement { sql: LOOK.to_owned(), types: TYPES };
    let table = names.table();
    let (meta, fences) = (format!("{table}_meta"), format!("{table}_fence"));
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&names.schema(), &table, &meta, &fences];
    let rows = pool.run(Effect::Read, &statement, &values).await?;
    rows.first().and_then(Seen::read).ok_or_else(|| Error::unavailable("the catalogs are empty"))
}

impl Seen {
    fn read(row: &Row) -> Option<Self> {
        Some(Self {
            role: row.try_get("role").ok()?,
            schema_stands: row.try_get("schema_stands").ok()?,
            table_stands: row.try_get("table_stands").ok()?,
            complete: row.try_get("complete").ok()?,
            format: row.try_get("format").ok()?,
            logged: row.try_get("logged").ok()?,
            counts: row.try_get("counts").ok()?,
            allowed: row.try_get("allowed").ok()?,
        })
    }

    fn check_format(&self, names: &Names) -> Result<()> {
        match self.format.as_deref() {
            _ if !self.table_stands => Ok(()),
            Some(FORMAT) => Ok(()),
            Some(other) if other.starts_with("tenure leases, format ") => {
                let text = format!(
                    "the table {} is of another version of tenure: its comment should say \
                     {FORMAT:?}",
                    names.leases()
                );
                Err(Error::new(ErrorKind::Unsupported, text))
            }
            _ => {
                let text = format!(
                    "the table {} is not tenure's (its comment should say {FORMAT:?}): choose \
                     another schema or table",
                    names.leases()
                );
                Err(Error::new(ErrorKind::Mismatch, text))
            }
        }
    }
}

/// One message and so one transaction, which a lock makes the only one of its kind.
async fn make(pool: &Pool, names: &Names, seen: &Seen) -> Result<()> {
    let (space, number) = names.setup_lock();
    let statements = if seen.schema_stands { names.tables() } else { names.setup() };
    let sql = format!("SELECT pg_advisory_xact_lock({space}, {number});\n{statements}");
    let client = pool.get().await?;
    client.batch_execute(&sql).await.map_err(|error| {
        if error.code() != Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            return harmless(error);
        }
        let text = format!(
            "the tables are missing and this user may not make them; run as one who may:\n{}{}",
            names.setup(),
            names.grants(&seen.role)
        );
        Error::new(ErrorKind::Denied, text)
    })
}

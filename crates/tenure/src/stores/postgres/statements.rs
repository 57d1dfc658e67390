//! The rule of a lock in SQL: one statement per verb, decided by the server's clock.
//!
//! `clock_timestamp()` throughout, never `now()`, which stands still within a statement.
//!
//! Every answer has the same columns: whether it was `done`, whether the row is `mine`, and the
//! row. What changes a grant answers nothing when it is not there; only then it is asked whose the
//! key is. A row that is mine then came in between: the statement is to be sent again.

use tokio_postgres::types::Type;

use super::names::{Names, literal};

/// A statement and the types of its parameters.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) types: &'static [Type],
}

/// The statements of one store.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) acquire: Statement,
    pub(super) renew: Statement,
    pub(super) release: Statement,
    pub(super) whose: Statement,
    pub(super) force: Statement,
    pub(super) inspect: Statement,
    pub(super) list: Statement,
    pub(super) list_to_the_end: Statement,
    pub(super) agree: Statement,
}

/// The greatest fence that a row had which was swept; null when none was.
pub(super) fn floor(meta: &str) -> String {
    format!("(SELECT value::bigint FROM {meta} WHERE name = '{FLOOR}')")
}

/// What the floor is called among everything else.
pub(super) const FLOOR: &str = "floor";

const LIVE: &str = "owner IS NOT NULL AND deadline > clock_timestamp()";
const ROW: &str = "holder, fence, ttl_ms, granted_at, deadline";

/// A commit that changes a lease reaches the disk (and the synchronous standbys) before it is
/// answered, whatever the server's default is. The setting ends with the statement.
const SYNCED: &str = "set_config('synchronous_commit', 'on', true)";

/// Tells who waits for the key. Notifying makes commits stand in line for the whole server, so it
/// is done only when someone waits: whoever does holds the group's lock shared. If no one does,
/// this takes it until the commit, and who comes now waits for that and then sees a free key.
fn bell(space: usize) -> String {
    let (group, channel) = (space + 1, space + 2);
    format!(
        "CASE WHEN NOT pg_try_advisory_xact_lock(${space}, ${group}) \
         THEN pg_notify(${channel}, '')::text END"
    )
}

impl Statements {
    pub(super) fn new(names: &Names) -> Self {
        let leases = names.leases();
        Self {
            acquire: acquire(&leases, &names.meta(), &literal(&names.fences())),
            renew: renew(&leases),
            release: release(&leases),
            whose: whose(&leases),
            force: force(&leases),
            inspect: Statement {
                sql: format!(
                    "SELECT true AS done, true AS mine, {ROW}, clock_timestamp() AS now, owner \
                     FROM {leases} WHERE key = $1 AND {LIVE}"
                ),
                types: &[Type::TEXT],
            },
            list: Statement {
                sql: list(&leases, "AND key < $4"),
                types: &[Type::TEXT, Type::TEXT, Type::INT8, Type::TEXT],
            },
            list_to_the_end: Statement {
                sql: list(&leases, ""),
                types: &[Type::TEXT, Type::TEXT, Type::INT8],
            },
            agree: agree(&names.meta()),
        }
    }
}

/// `$1` key, `$2` owner, `$3` holder, `$4` ttl in ms, `$5` whether to adopt.
///
/// A held key is found by reading: asking for it writes nothing. Fences come from a sequence, which
/// no snapshot and no rollback sets back; a row that stands adds its own, and for one that was
/// swept the floor does. So a key's fences grow even where the sequence was left behind.
fn acquire(leases: &str, meta: &str, fences: &str) -> Statement {
    let floor = floor(meta);
    // By the moment before the row was locked, which is the same in every place. A lease that ended
    // since is neither adopted nor replaced: the statement is sent again.
    let adopted = "$5 AND t.owner = $2 AND t.deadline > excluded.granted_at";
    let sql = format!(
        "WITH held AS MATERIALIZED (
            SELECT {ROW} FROM {leases}
            WHERE key = $1 AND {LIVE} AND NOT ($5 AND owner = $2)
        ), granted AS (
            INSERT INTO {leases} AS t (key, owner, {ROW})
            SELECT $1, $2, $3, greatest({floor} + 1, nextval({fences})), $4, now,
                now + $4 * interval '1 ms'
            FROM clock_timestamp() AS now WHERE NOT EXISTS (SELECT FROM held)
            ON CONFLICT (key) DO UPDATE SET
                owner = excluded.owner,
                holder = CASE WHEN {adopted} THEN t.holder ELSE excluded.holder END,
                fence = CASE WHEN {adopted} THEN t.fence
                    ELSE greatest(t.fence + 1, excluded.fence) END,
                ttl_ms = CASE WHEN {adopted} THEN greatest(t.ttl_ms, $4) ELSE $4 END,
                granted_at = CASE WHEN {adopted} THEN t.granted_at ELSE excluded.granted_at END,
                deadline = CASE WHEN {adopted} THEN greatest(t.deadline, excluded.deadline)
                    ELSE excluded.deadline END,
                released_at = NULL
            WHERE t.owner IS NULL OR t.deadline <= excluded.granted_at
                OR {adopted} AND t.deadline > clock_timestamp()
            RETURNING {ROW}, clock_timestamp() AS now
        )
        SELECT true AS done, true AS mine, granted.*, {SYNCED} FROM granted
        UNION ALL SELECT false, false, held.*, clock_timestamp(), NULL FROM held"
    );
    Statement { sql, types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8, Type::BOOL] }
}

/// Which row a renewal or release is about: `$1` key, `$2` owner, `$3` fence or null.
const OF_GRANT: &str = "owner = $2 AND ($3 IS NULL OR fence = $3)";

/// Whose the key is now: `$1` key, `$2` owner, `$3` fence or null.
fn whose(leases: &str) -> Statement {
    let sql = format!(
        "SELECT false AS done, {OF_GRANT} AS mine, {ROW}, clock_timestamp() AS now FROM {leases}
        WHERE key = $1 AND {LIVE}"
    );
    Statement { sql, types: &[Type::TEXT, Type::TEXT, Type::INT8] }
}

/// `$4` ttl in ms.
fn renew(leases: &str) -> Statement {
    let sql = format!(
        "UPDATE {leases} SET
            ttl_ms = greatest(ttl_ms, $4),
            deadline = greatest(deadline, clock_timestamp() + $4 * interval '1 ms')
        WHERE key = $1 AND {OF_GRANT} AND {LIVE}
        RETURNING true AS done, true AS mine, {ROW}, clock_timestamp() AS now, {SYNCED}"
    );
    Statement { sql, types: &[Type::TEXT, Type::TEXT, Type::INT8, Type::INT8] }
}

/// `$4` and `$5` the lock of the key's group, `$6` its channel.
///
/// The row stays, without its owner: its fence must outlive the lease.
fn release(leases: &str) -> Statement {
    const TYPES: &[Type] =
        &[Type::TEXT, Type::TEXT, Type::INT8, Type::INT4, Type::INT4, Type::TEXT];
    let sql = freed(leases, &format!("{OF_GRANT} AND {LIVE}"), &bell(4));
    Statement { sql, types: TYPES }
}

fn freed(leases: &str, condition: &str, bell: &str) -> String {
    format!(
        "UPDATE {leases} SET owner = NULL, released_at = clock_timestamp()
        WHERE key = $1 AND {condition}
        RETURNING true AS done, true AS mine, {ROW}, released_at AS now, {SYNCED}, {bell}"
    )
}

/// `$1` key, `$2` and `$3` the lock of its group, `$4` its channel.
fn force(leases: &str) -> Statement {
    let sql = freed(leases, LIVE, &bell(2));
    Statement { sql, types: &[Type::TEXT, Type::INT4, Type::INT4, Type::TEXT] }
}

/// `$1` the prefix, `$2` the key before the page, `$3` how many; `$4` what comes after all keys
/// with that prefix. By the primary key, whose order is that of the bytes.
fn list(leases: &str, end: &str) -> String {
    format!(
        "SELECT true AS done, false AS mine, {ROW}, clock_timestamp() AS now, key FROM {leases}
        WHERE key >= $1 AND key > $2 {end} AND {LIVE} ORDER BY key LIMIT $3"
    )
}

/// `$1` the name, `$2` the fingerprint.
fn agree(meta: &str) -> Statement {
    let sql = format!(
        "WITH new AS (
            INSERT INTO {meta} (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING value
        )
        SELECT value, {SYNCED} FROM new UNION ALL SELECT value, NULL FROM {meta} WHERE name = $1"
    );
    Statement { sql, types: &[Type::TEXT, Type::TEXT] }
}

/// The least text that is greater than every text with this prefix; `None` when there is none.
pub(super) fn after_prefix(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        // In UTF-8 the order of bytes is that of the characters. `Step` skips the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_just_behind_it() {
        assert_eq!(after_prefix("job/").as_deref(), Some("job0"));
        assert_eq!(after_prefix("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(after_prefix("a\u{10ffff}\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(after_prefix("\u{10ffff}"), None);
        assert_eq!(after_prefix(""), None);
    }
}

//! `postgres://`: locks in a table of PostgreSQL, decided by its clock.
//!
//! Each operation is one statement and one round trip. Where a renewal or release comes too late,
//! it takes another to learn whose the key is. A claim on a held key only reads.
//!
//! # What it promises
//! Class F, fenced-correct: grants and fences survive a crash of the server, because every change
//! of a lease is committed with `synchronous_commit = on`, whatever the server's default is. It is
//! lowered to class E, with the reason among the findings, when
//! - there are standbys and `synchronous_standby_names` is empty: a fail-over may lose grants,
//! - `fsync` or `full_page_writes` is off, or the table was made unlogged.
//!
//! Leases end by the server's wall clock (`clock_timestamp()`). Setting it forward ends them early,
//! and only fences protect then. Slewing it is harmless as long as it and a client's clock do not
//! drift apart by more than 1 %: let chrony have `maxslewrate 5000` (half a percent) on all of
//! these machines, its default is sixteen times that.
//!
//! Fences come from a sequence, so they grow across all keys of a table, and a key whose row was
//! cleared away goes on where it was. A logical replica does not get the sequence's value. One that
//! takes over with the sequence behind is refused when the store is opened, with the statement that
//! sets it. Who had the store open already goes on: a key's fences grow all the same, because its
//! row, or else the greatest fence of all rows that were cleared away, is looked at too.
//!
//! # Set-up
//! PostgreSQL 12 or later, a database with the encoding UTF8. The store makes its tables on first
//! use, if its user may. If not, an administrator runs what [`PostgresOptions::setup_sql`] and
//! [`PostgresOptions::grant_sql`] say, which is also in the text of the refusal:
//!
//! ```sql
//! CREATE SCHEMA IF NOT EXISTS "tenure";
//! CREATE SEQUENCE IF NOT EXISTS "tenure"."lease_fence";
//! CREATE TABLE IF NOT EXISTS "tenure"."lease_meta" (
//!     name        text COLLATE "C" PRIMARY KEY,
//!     value       text NOT NULL
//! );
//! CREATE TABLE IF NOT EXISTS "tenure"."lease" (
//!     key         text COLLATE "C" PRIMARY KEY,
//!     owner       text,
//!     holder      text NOT NULL,
//!     fence       bigint NOT NULL,
//!     ttl_ms      bigint NOT NULL,
//!     granted_at  timestamptz NOT NULL,
//!     deadline    timestamptz NOT NULL,
//!     released_at timestamptz
//! ) WITH (fillfactor = 50);
//! COMMENT ON TABLE "tenure"."lease" IS 'tenure leases, format 1';
//!
//! GRANT USAGE ON SCHEMA "tenure" TO "app";
//! GRANT SELECT, INSERT, UPDATE, DELETE ON "tenure"."lease", "tenure"."lease_meta" TO "app";
//! GRANT USAGE ON SEQUENCE "tenure"."lease_fence" TO "app";
//! ```
//!
//! A key is one row, under its full name: `t1/<namespace>/<key>`. A release takes the owner out of
//! it and leaves the rest, and one process a minute clears away the rows that have been free for
//! longer than `sweep_after`. Owners stand in the table as they are: who can read it can release
//! what others hold.
//!
//! # The URL
//! `postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS`, or `postgresql://`. Several hosts stand
//! with commas between them; the first that takes writes is used. One that is silent for half a
//! second, and so each of several addresses of a name, does not keep the next from being tried. Of
//! all hosts only one may take writes: two would be two stores. What the URL leaves out comes
//! from `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`, `PGSSLMODE`, `PGSSLROOTCERT`,
//! `PGSSLCERT` and `PGSSLKEY`; the host is `localhost` if no one names one.
//!
//! | option | default | what it says |
//! |---|---|---|
//! | `schema`, `table` | `tenure`, `lease` | where the locks are |
//! | `connections` | 8 | the most; one more listens, and silent ones may be replaced by as many |
//! | `listen` | `true` | whether to listen for releases; without, waiters look from time to time |
//! | `listen_url` | the URL itself | where to listen instead, past a pooler; percent-encoded |
//! | `prepare` | found out | whether to prepare statements, see below |
//! | `sweep_after` | 600 | for how many seconds the row of a free key stays |
//! | `sslmode`, `sslrootcert`, `sslcert`, `sslkey` | `prefer` | see below |
//! | `connect_timeout` | 5 | for how many seconds each address may be silent |
//! | `application_name` | `tenure` | as for libpq |
//! | `tcp_user_timeout`, `keepalives…` | 10 s, on | as for libpq |
//! | `options`, `hostaddr`, `channel_binding`, … | | as for libpq |
//!
//! [`PostgresOptions`] sets them in code, and user, password and database too. Only the URL says
//! where the server is, and what is in the last two lines, but for `options`.
//!
//! # Transport security
//! | `sslmode` | TLS | what is checked of the server's certificate |
//! |---|---|---|
//! | `disable` | never | |
//! | `prefer` | if the server has it | nothing |
//! | `verify-ca` | always | that it comes from a trusted issuer |
//! | `require`, `verify-full` | always | that, and that it is for this host |
//!
//! Mind that `require` checks more here than it does for libpq. Trusted are the issuers in the file
//! that `sslrootcert` names, or else the system's.
//!
//! # Poolers
//! A pooler that lends a connection to each transaction, such as `PgBouncer` with `pool_mode =
//! transaction`, passes no notifications on and mixes up prepared statements. The store finds out
//! when it opens, by whether it hears itself: then it does without both, says so among its
//! findings, and `wakes` is false. `listen_url` with the address of the server itself brings the
//! wake-ups back. `prepare=true` must not be said behind such a pooler.

mod dial;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod listener;
mod names;
mod options;
mod pool;
mod probe;
mod rows;
mod schema;
mod server;
mod statements;
mod store;
mod sweep;
mod tls;

use std::sync::Arc;

pub use options::PostgresOptions;
pub use store::PostgresStore;

use crate::clock::Clock;
use crate::error::Result;
use crate::store::Store;

/// What URLs of this store begin with.
pub const SCHEMES: &[&str] = &["postgres", "postgresql"];

/// Opens the store that `url` names.
///
/// # Errors
/// What stands in the way, with what to do about it. No error repeats the URL.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    Ok(PostgresOptions::new(url)?.open(clock).await?)
}

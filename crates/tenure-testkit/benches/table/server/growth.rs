//! Grants a second of the server with few and with many connections, beside Redis with as many.

use anyhow::Result;

use super::rounds::Rounds;
use super::{Served, others, ways};
use crate::figure::{Figure, Point, Source};
use crate::machine::folder;
use crate::report::{Better, Row, Table, grouped, per_second};
use crate::rivals::redis_lock;
use crate::sample::on_all_cores;

const CONNECTIONS: [usize; 4] = [1, 10, 100, 1_000];

const WAYS: [&str; 2] = ["REST", "gRPC requests"];

/// A setting of `appendfsync`, what follows the name of a row, and what is said of it.
type Rival = (&'static str, &'static str, &'static str);
const RIVALS: [Rival; 2] = [
    ("always", "", "all of them synced"),
    ("everysec", " (everysec)", "beside Redis with everysec, which answers before it has synced"),
];

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    // First, because the others may then have as many connections as it.
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let [always, everysec] = RIVALS.map(|(appendfsync, ..)| redis_lock::start(appendfsync));
    let (always, everysec) = (always?, everysec?);
    for count in CONNECTIONS {
        let rounds = on_all_cores(async {
            let rest = ways::by_rest(&served, count).await?;
            let grpc = ways::by_grpc(&served, count, count).await?;
            let always = others::on_redis(&always, count).await?;
            let everysec = others::on_redis(&everysec, count).await?;
            Rounds::of([rest, grpc], [always, everysec]).await
        })?;
        tell(table, count, &rounds)?;
    }
    Ok(())
}

fn tell(
    table: &mut Table,
    count: usize,
    rounds: &Rounds<{ WAYS.len() }, { RIVALS.len() }>,
) -> Result<()> {
    let plural = if count == 1 { "" } else { "s" };
    let connections = format!("{} connection{plural}", grouped(count as f64));
    let point =
        |source: Source<'_>, rate: f64| Point::new(Figure::Connections, source, count as f64, rate);
    for (way, name) in WAYS.into_iter().enumerate() {
        for (rival, (appendfsync, suffix, said)) in RIVALS.into_iter().enumerate() {
            let pairs = rounds.pairs(way, rival);
            let rate = per_second(pairs.measured()?);
            let row = Row::new(format!("server: {name}, {connections}{suffix}"), rate)
                .beside(format!("Redis {appendfsync} {}", per_second(pairs.reference()?)))
                .ratio(pairs.ratio()?, Better::Higher)
                .unsure_if(pairs.is_unsteady())
                .note(said);
            table.add(row);
        }
        let rate = rounds.ours(way)?;
        let name = format!("tenure, {name}");
        table.draw(point(Source::Ours(&name), rate.middle).unsure_if(rate.is_unsure));
    }
    for (rival, (appendfsync, ..)) in RIVALS.into_iter().enumerate() {
        let rate = rounds.theirs(rival)?;
        let name = format!("Redis, {appendfsync}");
        table.draw(point(Source::Theirs(&name), rate.middle).unsure_if(rate.is_unsure));
    }
    Ok(())
}

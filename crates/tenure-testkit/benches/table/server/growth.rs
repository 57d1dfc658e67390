//! Grants a second of the server with few and with many connections, beside Redis with as many.

use anyhow::Result;

use super::{Served, others, ways};
use crate::figure::{Figure, Source};
use crate::machine::{allow_files, folder};
use crate::report::{Better, Row, Table, grouped, per_second};
use crate::rivals::redis_lock;
use crate::sample::{Pairs, on_all_cores};

const CONNECTIONS: [usize; 4] = [1, 10, 100, 1_000];
const ROUNDS: usize = 5;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    // Before the servers start: they may have as many as this process.
    allow_files()?;
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let always = redis_lock::start(folder.path(), "always")?;
    let everysec = redis_lock::start(folder.path(), "everysec")?;
    for count in CONNECTIONS {
        let rates = on_all_cores(async {
            let mut rest = ways::by_rest(&served, count).await?;
            let mut grpc = ways::by_grpc(&served, count, count).await?;
            let mut always = others::on_redis(&always, count).await?;
            let mut everysec = others::on_redis(&everysec, count).await?;
            let mut rates = Rates::default();
            for round in 0..=ROUNDS {
                let synced = always.grants_per_second().await?;
                let unsynced = everysec.grants_per_second().await?;
                let rest = rest.grants_per_second().await?;
                let grpc = grpc.grants_per_second().await?;
                // The first round fills the caches of all.
                if round > 0 {
                    rates.rest.push(rest, synced);
                    rates.grpc.push(grpc, synced);
                    rates.unsynced.push(rest, unsynced);
                }
            }
            Ok(rates)
        })?;
        rates.tell(table, count)?;
    }
    Ok(())
}

/// Grants a second, beside those of Redis in the same round.
#[derive(Default)]
struct Rates {
    rest: Pairs,
    grpc: Pairs,
    /// By REST, beside a Redis that does not wait for the disk.
    unsynced: Pairs,
}

impl Rates {
    fn tell(&self, table: &mut Table, count: usize) -> Result<()> {
        let plural = if count == 1 { "" } else { "s" };
        let connections = format!("{} connection{plural}", grouped(count as f64));
        let everysec = self.unsynced.reference()?;
        for (name, pairs) in [("REST", &self.rest), ("gRPC requests", &self.grpc)] {
            let rate = pairs.measured()?;
            let row = Row::new(format!("server: {name}, {connections}"), per_second(rate))
                .beside(format!("Redis {}", per_second(pairs.reference()?)))
                .ratio(pairs.ratio()?, Better::Higher)
                .note(format!("appendfsync always; with everysec {}", per_second(everysec)));
            table.add(row);
            let name = format!("tenure, {name}");
            table.plot(Figure::Connections, Source::Ours(&name), count as f64, rate);
        }
        let theirs = [("Redis, always", self.rest.reference()?), ("Redis, everysec", everysec)];
        for (name, rate) in theirs {
            table.plot(Figure::Connections, Source::Theirs(name), count as f64, rate);
        }
        Ok(())
    }
}

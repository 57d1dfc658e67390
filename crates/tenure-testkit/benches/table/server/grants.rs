//! Grants a second through the server, beside what people use instead.

use anyhow::{Context, Result};

use super::caller::Crowd;
use super::{CALLERS, Served, others, ways};
use crate::figure::{Figure, Point, Source};
use crate::machine::folder;
use crate::report::{Better, Row, Table, per_second};
use crate::rivals::{etcd_lock, redis_lock};
use crate::sample::{Pairs, is_unsteady, median, on_all_cores};

const ROUNDS: usize = 5;
/// So many connections carry the requests by gRPC. The streams have as many as is usual.
const CONNECTIONS: usize = 4;

/// A way to the server: its name, what is said of it, and how much of the rate of Redis with
/// `appendfsync always` it has to reach.
type Way = (&'static str, &'static str, Option<f64>);
const WAYS: [Way; 3] = [
    ("gRPC stream, 64 callers", "", Some(1.0)),
    ("gRPC requests, 64 callers", ", a request for each", None),
    ("REST, 64 connections", ", HTTP/1.1", Some(0.4)),
];

/// What else takes locks: its name, what follows the name of a row, and what is said of it.
type Rival = (&'static str, &'static str, &'static str);
const RIVALS: [Rival; 4] = [
    ("Redis", "", "locked and unlocked, synced; Redis: appendfsync always, 64 connections"),
    (
        "together",
        " (1 connection)",
        "beside the same Redis with its 64 callers on one connection, which carries them together",
    ),
    ("everysec", " (everysec)", "beside Redis with everysec, which answers before it has synced"),
    ("etcd's lock", " (etcd)", "beside etcd's own lock, synced; 64 callers on 4 connections"),
];

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    // All on the same disk.
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let always = redis_lock::start(folder.path(), "always")?;
    let everysec = redis_lock::start(folder.path(), "everysec")?;
    let etcd = etcd_lock::start(folder.path())?;
    let rounds = on_all_cores(async {
        let mut ours = [
            ways::on_streams(&served, CALLERS).await?,
            ways::by_grpc(&served, CALLERS, CONNECTIONS).await?,
            ways::by_rest(&served, CALLERS).await?,
        ];
        let mut theirs = [
            others::on_redis(&always, CALLERS).await?,
            others::on_redis_together(&always, CALLERS).await?,
            others::on_redis(&everysec, CALLERS).await?,
            others::on_etcd(&etcd, CALLERS, CONNECTIONS).await?,
        ];
        let mut rounds = Vec::new();
        for _ in 0..=ROUNDS {
            let theirs = rates(&mut theirs).await?;
            rounds.push(Round { ours: rates(&mut ours).await?, theirs });
        }
        // The first round fills the caches of all.
        Ok(rounds.split_off(1))
    })?;
    tell(table, &rounds)
}

/// Grants a second of each, one after the other.
struct Round {
    ours: [f64; WAYS.len()],
    theirs: [f64; RIVALS.len()],
}

async fn rates<const N: usize>(crowds: &mut [Crowd; N]) -> Result<[f64; N]> {
    let mut rates = [0.0; N];
    for (crowd, rate) in crowds.iter_mut().zip(&mut rates) {
        *rate = crowd.grants_per_second().await?;
    }
    Ok(rates)
}

fn tell(table: &mut Table, rounds: &[Round]) -> Result<()> {
    for (rival, (name, suffix, said)) in RIVALS.into_iter().enumerate() {
        for (way, (title, how, least)) in WAYS.into_iter().enumerate() {
            let mut pairs = Pairs::default();
            rounds.iter().for_each(|round| pairs.push(round.ours[way], round.theirs[rival]));
            let ratio = pairs.ratio()?;
            let mut row =
                Row::new(format!("server: {title}{suffix}"), per_second(pairs.measured()?))
                    .beside(format!("{name} {}", per_second(pairs.reference()?)))
                    .ratio(ratio, Better::Higher)
                    .note(if way == 0 { said.to_owned() } else { format!("the same{how}") });
            if let (0, Some(least)) = (rival, least) {
                row = row.target(&format!("≥ {least:.2}"), ratio >= least);
            }
            table.add(row.unsure_if(pairs.is_unsteady()));
        }
    }
    draw(table, rounds)
}

fn draw(table: &mut Table, rounds: &[Round]) -> Result<()> {
    let ours = ["tenure, gRPC stream", "tenure, gRPC requests", "tenure, REST"];
    for (way, name) in ours.into_iter().enumerate() {
        bar(table, Source::Ours(name), rounds.iter().map(|round| round.ours[way]))?;
    }
    let theirs =
        ["Redis, always", "Redis, always, 1 connection", "Redis, everysec", "etcd's own lock"];
    for (rival, name) in theirs.into_iter().enumerate() {
        bar(table, Source::Theirs(name), rounds.iter().map(|round| round.theirs[rival]))?;
    }
    Ok(())
}

fn bar(
    table: &mut Table,
    source: Source<'_>,
    rates: impl Iterator<Item = f64> + Clone,
) -> Result<()> {
    let rate = median(&mut rates.clone().collect::<Vec<_>>()).context("nothing was measured")?;
    table.draw(Point::bar(Figure::Server, source, rate).unsure_if(is_unsteady(rates)));
    Ok(())
}

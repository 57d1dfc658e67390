//! Grants a second through the server, beside what people use instead.

use anyhow::Result;
use tenure_testkit::servers::etcd;

use super::rounds::{Rate, Rounds};
use super::{CALLERS, Served, others, ways};
use crate::figure::{Figure, Point, Source};
use crate::machine::folder;
use crate::report::{Better, Row, Table, per_second};
use crate::rivals::redis_lock;
use crate::sample::on_all_cores;

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
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let always = redis_lock::start("always")?;
    let everysec = redis_lock::start("everysec")?;
    let etcd = etcd::alone(&[])?;
    let rounds = on_all_cores(async {
        let ours = [
            ways::on_streams(&served, CALLERS).await?,
            ways::by_grpc(&served, CALLERS, CONNECTIONS).await?,
            ways::by_rest(&served, CALLERS).await?,
        ];
        let theirs = [
            others::on_redis(&always, CALLERS).await?,
            others::on_redis_together(&always, CALLERS).await?,
            others::on_redis(&everysec, CALLERS).await?,
            others::on_etcd(&etcd, CALLERS, CONNECTIONS).await?,
        ];
        Rounds::of(ours, theirs).await
    })?;
    tell(table, &rounds)
}

type Grants = Rounds<{ WAYS.len() }, { RIVALS.len() }>;

fn tell(table: &mut Table, rounds: &Grants) -> Result<()> {
    for (rival, (name, suffix, said)) in RIVALS.into_iter().enumerate() {
        for (way, (title, how, least)) in WAYS.into_iter().enumerate() {
            let pairs = rounds.pairs(way, rival);
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

fn draw(table: &mut Table, rounds: &Grants) -> Result<()> {
    let bar = |source, rate: Rate| {
        Point::bar(Figure::Server, source, rate.middle).unsure_if(rate.is_unsure)
    };
    let ours = ["tenure, gRPC stream", "tenure, gRPC requests", "tenure, REST"];
    for (way, name) in ours.into_iter().enumerate() {
        table.draw(bar(Source::Ours(name), rounds.ours(way)?));
    }
    let theirs =
        ["Redis, always", "Redis, always, 1 connection", "Redis, everysec", "etcd's own lock"];
    for (rival, name) in theirs.into_iter().enumerate() {
        table.draw(bar(Source::Theirs(name), rounds.theirs(rival)?));
    }
    Ok(())
}

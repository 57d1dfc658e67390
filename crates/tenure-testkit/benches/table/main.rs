//! What tenure costs: one table, each figure beside what it is measured against in the same run.
//!
//! `cargo xtask bench` measures all of it, `cargo xtask bench NAME` only what begins
//! with a name in `SECTIONS` that contains NAME. A missed target is told in the table and in its
//! last line, and then the exit code is not 0; one that the machine was too busy to judge is told
//! too, and is no failure. All files are where `TMPDIR` says, which `cargo xtask bench` sees to be
//! on a disk. A whole run also writes the table and its charts into the folder for benchmarks among
//! the documents; `TENURE_BENCH_DOCS` names another one, and then any run does.

#![allow(clippy::print_stdout)]

mod batching;
mod chart;
mod command;
mod contenders;
mod contest;
mod cycle;
mod etcd_call;
mod figure;
mod file_load;
mod footprint;
mod growth;
mod handoff;
mod kept;
mod machine;
mod publish;
mod raw;
mod raw_sqlite;
mod redis_footprint;
mod report;
mod rivals;
mod role;
mod rule_alone;
mod sample;
mod served;
mod server;
mod shipped;
mod versions;
mod waiters;

use std::process::ExitCode;

use anyhow::{Context, Result};
use tenure::clock::{Clock, SystemClock};

use machine::Machine;
use publish::Edition;
use report::Table;

/// One measurement: what the rows that it adds begin with, and how to get them.
type Section = (&'static str, fn(&mut Table) -> Result<()>);

const SECTIONS: &[Section] = &[
    ("rule", rule_alone::measure),
    ("memory: cycle", cycle::measure),
    ("memory: waiters", waiters::measure),
    ("memory: bytes per lease", footprint::measure),
    ("memory: kept-alive guards", kept::measure),
    ("file: 1 task", |table| file_load::measure_tasks(table, 1)),
    ("file: 16 tasks", |table| file_load::measure_tasks(table, 16)),
    ("file: 128 tasks", |table| file_load::measure_tasks(table, 128)),
    ("file: 4 processes of 1", |table| file_load::measure_processes(table, 4)),
    ("file: 4 processes of 4", |table| file_load::measure_processes(table, 16)),
    ("file: 4 processes of 32", |table| file_load::measure_processes(table, 128)),
    ("file: hand-off", handoff::measure),
    ("file: rows", growth::measure_file),
    ("redis: rows", |table| growth::measure(table, "redis", growth::ALL)),
    ("postgres: rows", growth::measure_postgres),
    ("nats: rows", |table| growth::measure(table, "nats", growth::SOME)),
    ("etcd: rows", |table| growth::measure(table, "etcd", growth::SOME)),
    ("server: rows", growth::measure_server),
    ("redis", |table| served::measure(table, "redis")),
    ("postgres", |table| served::measure(table, "postgres")),
    ("nats", |table| served::measure(table, "nats")),
    ("etcd", |table| served::measure(table, "etcd")),
    ("object", |table| served::measure(table, "object/seaweedfs")),
    ("hand-off: file", contenders::measure_file),
    ("hand-off: server, redis, etcd", contenders::measure_rivals),
    ("hand-off: postgres", |table| contenders::measure(table, "postgres")),
    ("hand-off: nats", |table| contenders::measure(table, "nats")),
    ("hand-off: object", |table| contenders::measure(table, "object/seaweedfs")),
    ("server: grants", server::measure_grants),
    ("server: growth", server::measure_growth),
    ("server: p99", server::measure_latency),
    ("server: memory", server::measure_held),
    ("server: connections", server::measure_connections),
    ("server: waiters", server::measure_waiters),
    ("server: start", server::measure_start),
    ("forrst", server::measure_forrst),
    ("command", command::measure),
];

fn main() -> Result<ExitCode> {
    role::play_if_asked();
    let started = SystemClock.now();
    // Cargo itself adds `--bench`.
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    let machine = Machine::here()?;
    println!("{}", machine.line());
    let edition = Edition::of(machine, &wanted)?;
    let mut table = Table::start();
    for (name, measure) in SECTIONS.iter().filter(|(name, _)| is_wanted(name)) {
        measure(&mut table).with_context(|| format!("section {name}"))?;
    }
    let took = SystemClock.now().since(started);
    let met = table.end(took);
    match edition {
        Some(edition) => {
            edition.publish(&table, took)?;
            println!("the table and its charts are in {}", edition.folder().display());
        }
        None => println!("nothing was written: only `cargo xtask bench` without a name does that"),
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! The stores that are tortured: how each is started, and what is worth telling about it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tenure::store::Class;
use tenure_testkit::faketime;
use tenure_testkit::servers::postgres::Postgres;
use tenure_testkit::servers::redis::{Redis, start_redis};
use tenure_testkit::servers::{Server, Service, etcd, kinds, place, postgres};

use crate::replicated::Replicated;
use crate::shipped::Shipped;

/// A store, as a real server or as files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    /// Its name: that of the store, and after a slash what distinguishes it.
    pub(crate) name: &'static str,
    /// The class that it must be of, by what it finds out about itself.
    pub(crate) class: Class,
    /// What of its configuration matters, for people.
    pub(crate) configuration: &'static str,
    /// How long it may take to start again.
    pub(crate) start_max: Duration,
    /// Whether it says that it is ready before it works: then it counts as away until it does.
    pub(crate) recovers: bool,
    /// Whether a lease may begin its ttl anew when the server was away.
    pub(crate) rearms: bool,
    /// Whether one worker that is stopped in the middle of a write may keep all others waiting.
    pub(crate) is_files: bool,
    /// The rates of the workers' boot clocks, in thousandths. A machine has one such clock, so that
    /// all who share files have it.
    pub(crate) rates: [u64; 3],
    /// Whether it refuses whoever's wall clock is wrong, because requests are signed with it.
    pub(crate) signs: bool,
}

const FILES: Subject = Subject {
    name: "file",
    class: Class::Fenced,
    configuration: "SQLite in WAL mode, full sync, shared by all workers",
    start_max: Duration::ZERO,
    recovers: false,
    rearms: false,
    is_files: true,
    rates: [1000; 3],
    signs: false,
};

const SERVED: Subject = Subject {
    is_files: false,
    start_max: Duration::from_secs(1),
    // With the half per cent of servers whose own clock is fast, within 1 %.
    rates: [996, 1000, 1004],
    ..FILES
};

const POSTGRES: Subject = Subject {
    name: "postgres",
    configuration: "fsync on, synchronous_commit on, four connections for each worker; its clock \
                    runs 0.5 % fast (libfaketime), within the bound that is promised",
    start_max: Duration::from_secs(3),
    ..SERVED
};

const SEAWEEDFS: Subject = Subject {
    name: "object/seaweedfs",
    configuration: "S3 with conditional writes, master, volume and filer in one process, heartbeat \
                    100 ms, election 1 s",
    start_max: Duration::from_secs(10),
    recovers: true,
    // Those who time leases by looking allow for 10 %. One that runs slow would keep an orphan for
    // longer by that.
    rates: [1000, 1020, 1040],
    signs: true,
    ..SERVED
};

/// Every store there is.
pub(crate) const ALL: &[Subject] = &[
    FILES,
    Subject {
        name: "redis",
        configuration: "appendonly yes, appendfsync always; its clock runs 0.5 % fast \
                        (libfaketime), within the bound that is promised",
        ..SERVED
    },
    POSTGRES,
    Subject {
        name: "nats",
        configuration: "JetStream on one server, sync_interval always",
        ..SERVED
    },
    Subject {
        name: "etcd",
        configuration: "one member, heartbeat 50 ms, election 500 ms",
        start_max: Duration::from_secs(3),
        rearms: true,
        ..SERVED
    },
    SEAWEEDFS,
    Subject {
        name: "remote",
        configuration: "`tenure serve` with its usual settings, on a file",
        start_max: Duration::from_secs(2),
        ..SERVED
    },
];

/// Stores that are there for whoever names them.
const MORE: &[Subject] = &[
    Subject { name: "object/folder", configuration: "a local folder", ..FILES },
    Subject {
        name: "object/ministack",
        configuration: "an imitation of S3",
        signs: false,
        ..SEAWEEDFS
    },
    Subject { name: "postgres/pgbouncer", configuration: "pooled by transaction", ..POSTGRES },
    VOLATILE,
    RUSHED,
    REPLICATED,
];

/// A store that is of class E by its own word: it keeps nothing over a restart.
pub(crate) const VOLATILE: Subject = Subject {
    name: "redis/volatile",
    class: Class::Efficiency,
    configuration: "appendonly no, no snapshots",
    ..SERVED
};

/// A store whose clock runs a fifth faster than those of the workers: far out of the bound within
/// which anything is promised.
pub(crate) const RUSHED: Subject =
    Subject { name: "postgres/rushed", configuration: "its clock runs 20 % fast", ..POSTGRES };

/// A store that fails over to a replica which may not have heard of the last grants.
pub(crate) const REPLICATED: Subject = Subject {
    name: "redis/replicated",
    class: Class::Efficiency,
    configuration: "a primary and a replica that follows it later, both with appendfsync always",
    start_max: Duration::from_secs(3),
    ..SERVED
};

/// The names of all of them, and of those that are only there for whoever names them.
pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().chain(MORE).map(|subject| subject.name).collect()
}

/// The store of this name.
pub(crate) fn named(name: &str) -> Option<Subject> {
    ALL.iter().chain(MORE).copied().find(|subject| subject.name == name)
}

impl Subject {
    /// Starts it.
    pub(crate) fn start(&self) -> Result<Arc<dyn Service>> {
        match self.name {
            "file" => Ok(Arc::new(Files(tempfile::tempdir()?))),
            "redis/volatile" => Ok(Arc::new(Volatile(start_redis(&["--appendonly", "no"])?))),
            "redis/replicated" => Ok(Arc::new(Replicated::start()?)),
            "redis" => Ok(Arc::new(timed("+0 x1.005", Redis::start_in)?)),
            "postgres" => Ok(Arc::new(timed("+0 x1.005", Postgres::start_in)?)),
            "remote" => Ok(Arc::new(Shipped::start()?)),
            "postgres/rushed" => Ok(Arc::new(timed("+0 x1.2", Postgres::start_in)?)),
            name => {
                let kind = kinds().into_iter().find(|kind| kind.name == name);
                (kind.with_context(|| format!("no server for {name}"))?.start)()
            }
        }
    }

    /// The name of its card's file, without the extension.
    pub(crate) fn slug(&self) -> String {
        self.name.replace('/', "-")
    }

    /// The version, as the server tells it.
    pub(crate) fn version(&self, service: &dyn Service) -> Result<String> {
        let store = self.name.split('/').next().unwrap_or(self.name);
        let Some(server) = service.server() else {
            let is_file = self.name == "file";
            let sqlite = || format!("SQLite {}", rusqlite::version());
            return Ok(if is_file { sqlite() } else { self.configuration.to_owned() });
        };
        let at = server.address();
        match store {
            "redis" => {
                let told = said(at, "INFO server\r\n", "redis_mode")?;
                let version = told.lines().find_map(|line| line.strip_prefix("redis_version:"));
                Ok(format!("Redis {}", version.context("no redis_version")?.trim()))
            }
            "postgres" => {
                let url = format!("postgres://{}@{at}/postgres", postgres::USER);
                let mut psql = Command::new(postgres::binary("psql")?);
                let output = psql.args(["-XAtc", "SHOW server_version", &url]).output()?;
                let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Ok(format!("PostgreSQL {version}"))
            }
            "nats" => Ok(format!("NATS {}", field(&greeting(at)?, "version")?)),
            "etcd" => {
                let told = etcd::http_get(at.port(), "/version")?;
                Ok(format!("etcd {}", field(&told, "etcdserver")?))
            }
            "object" if self.name.ends_with("seaweedfs") => {
                let weed = place::python()?.join("bin/weed");
                let output = Command::new(weed).arg("version").output()?;
                let told = String::from_utf8_lossy(&output.stdout).into_owned();
                let is_number = |word: &&str| word.split('.').all(|it| it.parse::<u32>().is_ok());
                let version = told.split_whitespace().find(is_number);
                Ok(format!("SeaweedFS {}", version.context("no version")?))
            }
            "object" => Ok(self.name.to_owned()),
            "remote" => Ok(format!("tenure {} on SQLite", env!("CARGO_PKG_VERSION"))),
            other => bail!("nobody knows how to ask {other}"),
        }
    }
}

/// A server whose clock goes as libfaketime is told. A clock that is fast is set back by each
/// restart, so that leases end later and not earlier.
fn timed<S>(rate: &str, start: fn(&[(&str, &OsStr)]) -> Result<S>) -> Result<S> {
    let mut preload = faketime::library()?.into_os_string();
    // With the C library's allocator: that of Redis asks for the time before libfaketime is ready.
    preload.push(":libc.so.6");
    start(&[
        ("LD_PRELOAD", &preload),
        ("FAKETIME", OsStr::new(rate)),
        ("FAKETIME_DONT_FAKE_MONOTONIC", OsStr::new("1")),
    ])
}

/// Sends bytes, and reads until the answer holds `last` or ends.
pub(crate) fn said(at: SocketAddr, request: &str, last: &str) -> Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(request.as_bytes())?;
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    loop {
        let size = stream.read(&mut buffer)?;
        answer += &String::from_utf8_lossy(&buffer[..size]);
        if size == 0 || answer.contains(last) {
            return Ok(answer);
        }
    }
}

fn greeting(at: SocketAddr) -> Result<String> {
    let mut line = String::new();
    BufReader::new(TcpStream::connect(at)?).read_line(&mut line)?;
    Ok(line)
}

/// A field of the JSON within a text.
fn field(text: &str, name: &str) -> Result<String> {
    let json = text.find('{').map(|start| &text[start..]).context("no JSON")?;
    let value: serde_json::Value = serde_json::from_str(json.trim())?;
    Ok(value[name].as_str().with_context(|| format!("no {name}"))?.to_owned())
}

/// A folder with a file for each room.
#[derive(Debug)]
struct Files(TempDir);

impl Service for Files {
    fn server(&self) -> Option<&Server> {
        None
    }

    fn url(&self, room: u32, _at: Option<SocketAddr>) -> String {
        format!("file:{}", self.0.path().join(format!("room-{room}.db")).display())
    }
}

/// A Redis that forgets everything when it is killed.
#[derive(Debug)]
struct Volatile(Server);

impl Service for Volatile {
    fn server(&self) -> Option<&Server> {
        Some(&self.0)
    }

    fn url(&self, _room: u32, at: Option<SocketAddr>) -> String {
        format!("redis://{}/0", at.unwrap_or_else(|| self.0.address()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_has_a_server_and_a_name_of_its_own() {
        let known: Vec<&str> = kinds().iter().map(|kind| kind.name).collect();
        for subject in ALL.iter().chain(MORE) {
            let own = ["file", "redis/volatile", "redis/replicated", "postgres/rushed"];
            let own = own.contains(&subject.name);
            assert!(own || known.contains(&subject.name), "{}", subject.name);
            assert_eq!(named(subject.name).map(|found| found.name), Some(subject.name));
        }
        // Every store that has a server is there, whichever server it is.
        for name in known {
            let store = name.split('/').next();
            assert!(ALL.iter().any(|subject| subject.name.split('/').next() == store), "{name}");
        }
    }
}

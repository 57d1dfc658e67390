//! Real servers, started by the tests that need them, on free ports and in temporary folders.
//!
//! What is not on the machine is installed by `cargo xtask test`; a server that cannot be started
//! fails the test that wanted it.

pub mod etcd;
pub mod nats;
mod object;
pub mod place;
pub mod postgres;
pub mod redis;
mod remote;
mod server;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustix::process::Signal;
use tenure::clock::SystemClock;

pub(crate) use remote::serve;
pub use server::{Program, Server, free_port};

use crate::conformance::{Maker, Subject};

/// A store that tests can reach, room by room, and break.
pub trait Service: Debug + Send + Sync {
    /// The process behind it; `None` where nothing runs, as for a folder.
    fn server(&self) -> Option<&Server>;

    /// The URL of a room: a part of the store in which nothing stands yet. `at` is where to reach
    /// the server, if not directly: a proxy in front of it.
    fn url(&self, room: u32, at: Option<SocketAddr>) -> String;

    /// Where it is reached, if not at its process: at what stands in front of it.
    fn address(&self) -> Option<SocketAddr> {
        self.server().map(Server::address)
    }

    /// Ends the process and lets another take its place; `None` where there is no other.
    fn fail_over(&self) -> Option<Result<()>> {
        None
    }

    /// A URL with a password that is not the right one; `None` where the server asks for none.
    fn wrong_url(&self, _password: &str) -> Option<String> {
        None
    }

    /// The hardest end after which all that it has answered is still there. An imitation that saves
    /// only when it is asked to end says so, and is not held to what the real one would be.
    fn hardest_end(&self) -> Signal {
        Signal::KILL
    }
}

/// A kind of server, which can be started any number of times.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in the matrix: that of the store, and after a slash what distinguishes it.
    pub name: &'static str,
    /// Starts one.
    pub start: fn() -> Result<Arc<dyn Service>>,
}

/// Every kind there is.
#[must_use]
pub fn kinds() -> Vec<Kind> {
    [redis::KINDS, postgres::KINDS, nats::KINDS, etcd::KINDS, object::KINDS, remote::KINDS].concat()
}

/// Where a server stands once it is started.
type Slot = Arc<Mutex<Option<Arc<dyn Service>>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that no other room of this process has.
pub fn fresh_room() -> u32 {
    static ROOMS: AtomicU32 = AtomicU32::new(1);
    ROOMS.fetch_add(1, Ordering::Relaxed)
}

impl Kind {
    /// The one server of this kind that the tests of this process share, each in its own room.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn shared(&self) -> Result<Arc<dyn Service>> {
        static SHARED: Mutex<BTreeMap<&'static str, Slot>> = Mutex::new(BTreeMap::new());
        let slot = Arc::clone(locked(&SHARED).entry(self.name).or_default());
        // A lock for each kind: one that is slow to start keeps no other waiting.
        let mut slot = locked(&slot);
        if let Some(service) = &*slot {
            return Ok(Arc::clone(service));
        }
        let service = (self.start)().with_context(|| format!("{}: no server", self.name))?;
        Ok(Arc::clone(slot.insert(service)))
    }

    /// Makes stores of this kind: a fresh room on the shared server each.
    #[must_use]
    pub fn maker(self) -> Maker {
        Maker::new(self.name, move || {
            Box::pin(async move {
                let service = tokio::task::spawn_blocking(move || self.shared()).await??;
                let url = service.url(fresh_room(), None);
                Ok(subject(url, service))
            })
        })
    }
}

/// A store at `url`, connected to as often as it is asked for. `keep` lives as long as it does.
pub fn subject(url: String, keep: impl std::any::Any + Send + Sync) -> Subject {
    let connect = {
        let url = url.clone();
        move || {
            let url = url.clone();
            Box::pin(async move { Ok(tenure::stores::open(&url, Arc::new(SystemClock)).await?) })
                as _
        }
    };
    Subject::new(connect, Some(url), keep)
}

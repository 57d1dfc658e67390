//! Waking the waiters of one process when another one has released a key.
//!
//! A write to the log is seen before its commit is, so watching the log would wake too early.
//! Instead, whoever has committed a release sets the times of the database file
//! ([`Place::touch`]), and every process with waiters has an inotify watch on that.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use super::error::system;
use super::place::Place;
use super::schema::open_read_only;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::watch::WatchHub;

/// A thread that listens for releases of other processes; dropping this ends it.
#[derive(Debug)]
pub(super) struct Bell {
    stop: Arc<OwnedFd>,
}

impl Bell {
    /// Starts to listen: a release after this call is heard.
    pub(super) fn hang(place: Arc<Place>, hub: WatchHub) -> Result<Self> {
        let failed = |error| system(error, "watching the file");
        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(failed)?;
        // Taking the file's name away counts as a change of its attributes.
        let events = WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        add_watch(&inotify, place.path(), events).map_err(failed)?;
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let stop = Arc::new(eventfd(0, flags).map_err(failed)?);
        let file = place.database().map_err(failed)?;
        let watcher = Watcher { place, file, hub, connection: None, seen: HashMap::new() };
        let stopped = Arc::clone(&stop);
        std::thread::Builder::new()
            .name("tenure-bell".into())
            .spawn(move || watcher.run(&inotify, &stopped))
            .map_err(|error| Error::unavailable("no thread could be started").caused_by(error))?;
        Ok(Self { stop })
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // Fails only when the counter is at its end, and then the thread is awake as well.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
    }
}

struct Watcher {
    place: Arc<Place>,
    file: (u64, u64),
    hub: WatchHub,
    connection: Option<Connection>,
    // The fence last seen on each watched key.
    seen: HashMap<Key, i64>,
}

impl Watcher {
    fn run(mut self, inotify: &OwnedFd, stop: &OwnedFd) {
        loop {
            let mut fds = [PollFd::new(inotify, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                // Without a bell the waiters poll, which they do anyway.
                Err(_) => return self.hub.ring_all(),
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            if !fds[0].revents().is_empty() && drain(inotify) {
                self.look();
            }
        }
    }

    /// Wakes who may have something to gain. In doubt that is everyone: a wake-up is a hint.
    fn look(&mut self) {
        let keys = self.hub.keys();
        if keys.is_empty() {
            return self.seen.clear();
        }
        let in_place = self.place.database().is_ok_and(|now| now == self.file);
        match self.fences(&keys) {
            Ok(seen) if in_place => {
                for key in &keys {
                    let fence = seen.get(key);
                    if fence.is_none() || fence != self.seen.get(key) {
                        self.hub.ring(key);
                    }
                }
                self.seen = seen;
            }
            _ => {
                self.connection = None;
                self.hub.ring_all();
            }
        }
    }

    /// The fences of those keys that are held.
    fn fences(&mut self, keys: &[Key]) -> rusqlite::Result<HashMap<Key, i64>> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(open_read_only(&self.place)?),
        };
        let snapshot = connection.transaction()?;
        let sql = "SELECT fence FROM leases WHERE key = ?1 AND deadline_ns > ?2";
        let mut get = snapshot.prepare(sql)?;
        let now = i64::try_from(SystemClock.now().as_nanos()).unwrap_or(i64::MAX);
        let mut held = HashMap::with_capacity(keys.len());
        for key in keys {
            let found = get.query_row((key.as_str(), now), |row| row.get(0)).optional()?;
            held.extend(found.map(|fence| (key.clone(), fence)));
        }
        Ok(held)
    }
}

/// Takes all events that wait, so that a burst of them is one look; whether there were any.
fn drain(inotify: &OwnedFd) -> bool {
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut events = Reader::new(inotify, &mut buffer);
    let mut any = false;
    while events.next().is_ok() {
        any = true;
    }
    any
}

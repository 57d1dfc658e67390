//! Servers for the `remote` store: tenure's own, on a file.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::clock::SystemClock;
use tenure::layers::KeyLayer;
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Key, KeyPolicy, Lease, Namespace, Status, Store};
use tenure_server::Running;
use tenure_server::config::Config;

use super::{Kind, Program, Server, Service};
use crate::role::{Role, as_role};

pub(super) const KINDS: &[Kind] = &[Kind { name: "remote", start }];

/// More rooms than any test program has use for.
const ROOMS: u32 = 8192;

#[derive(Debug)]
struct Remote(Server);

impl Service for Remote {
    fn server(&self) -> Option<&Server> {
        Some(&self.0)
    }

    fn url(&self, room: u32, at: Option<SocketAddr>) -> String {
        format!("tenure://{}/{}", at.unwrap_or(self.0.address()), name(room))
    }
}

fn name(room: u32) -> String {
    format!("room{room}")
}

/// Starts this program again, as a server.
fn start() -> Result<Arc<dyn Service>> {
    let server = Server::start("tenure", |port, folder| {
        let (path, variable) = as_role(&Role::Serve { folder: folder.to_owned(), port })?;
        Ok(Program {
            path,
            arguments: Vec::new(),
            environment: vec![variable],
            user: None,
            last_signal: "KILL",
            is_ready: Box::new(move || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()),
        })
    })?;
    Ok(Arc::new(Remote(server)))
}

/// Serves a file in `folder`, room by room, until it is killed.
pub(crate) async fn serve(folder: &Path, port: u16) -> Result<()> {
    let url = format!("file:{}", folder.join("locks.db").display());
    let file = tenure::stores::open(&url, Arc::new(SystemClock)).await?;
    let mut rooms: BTreeMap<String, Arc<dyn Store>> = BTreeMap::new();
    for number in 0..ROOMS {
        rooms.insert(name(number), Arc::new(Room::new(Arc::clone(&file), number)?));
    }
    let config = Config {
        listen: Some((Ipv4Addr::LOCALHOST, port).into()),
        default_store: Some(name(0)),
        ..Config::default()
    };
    let running = Running::start_with(config, rooms).await;
    let _running = running.map_err(|failure| anyhow!("{failure}"))?;
    std::future::pending().await
}

/// A part of one store that is a store to those in it.
#[derive(Debug)]
struct Room {
    inner: KeyLayer,
    number: u32,
}

impl Room {
    fn new(file: Arc<dyn Store>, number: u32) -> Result<Self> {
        let namespace = Namespace::new(&name(number))?;
        Ok(Self { inner: KeyLayer::new(file, KeyPolicy::plain(), namespace), number })
    }
}

#[async_trait]
impl Store for Room {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> tenure::Result<Attempt> {
        self.inner.try_acquire(claim).await
    }

    async fn renew(&self, renewal: &Renewal) -> tenure::Result<Renewed> {
        self.inner.renew(renewal).await
    }

    async fn release(&self, grant: &Grant) -> tenure::Result<Released> {
        self.inner.release(grant).await
    }

    async fn force_release(&self, eviction: &Eviction) -> tenure::Result<Option<Status>> {
        self.inner.force_release(eviction).await
    }

    async fn inspect(&self, key: &Key) -> tenure::Result<Option<Lease>> {
        self.inner.inspect(key).await
    }

    async fn list(&self, query: &ListQuery) -> tenure::Result<Page> {
        self.inner.list(query).await
    }

    async fn watch(&self, key: &Key) -> tenure::Result<Watch> {
        self.inner.watch(key).await
    }

    /// Namespaces are the store's, and no room may know of those of another.
    async fn agree(&self, pledge: &Pledge) -> tenure::Result<String> {
        let namespace = Namespace::new(&format!("{}.{}", pledge.namespace, self.number))?;
        self.inner.agree(&Pledge { namespace, ..pledge.clone() }).await
    }
}

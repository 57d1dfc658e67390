//! The store without a server: a file.

use std::net::SocketAddr;
use std::sync::Arc;

use tempfile::TempDir;
use tenure_testkit::servers::{Kind, Server, Service};

pub(crate) const KIND: Kind =
    Kind { name: "file", start: || Ok(Arc::new(Folder(tempfile::tempdir()?))) };

#[derive(Debug)]
struct Folder(TempDir);

impl Service for Folder {
    fn server(&self) -> Option<&Server> {
        None
    }

    fn url(&self, room: u32, _at: Option<SocketAddr>) -> String {
        format!("file:{}", self.0.path().join(format!("room-{room}.db")).display())
    }
}

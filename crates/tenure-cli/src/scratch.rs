//! A namespace of one's own on the user's store, for commands that try the store out.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tenure::{Locks, Operation, Store};

use crate::chance;
use crate::cli::StoreArgs;
use crate::failure::Failure;
use crate::open;
use crate::store_url::{self, StoreUrl};

/// Which store to try out.
#[derive(Args, Debug)]
pub(crate) struct ScratchArgs {
    /// The store's URL [default: a file in the user's data folder]
    ///
    /// Keys are made in a namespace of a random name, and none that is there is touched. To keep
    /// a password out of the process list, use TENURE_STORE.
    // No parser here: clap would repeat a bad URL, and with it a password.
    #[arg(long, value_name = "URL", env = "TENURE_STORE", hide_env_values = true)]
    store: Option<String>,
}

impl ScratchArgs {
    /// The store's URL, which may carry a password.
    pub(crate) fn url(&self) -> Result<StoreUrl, Failure> {
        store_url::resolve(self.store.as_deref())
    }

    /// Opens the store: each time over a connection of its own.
    pub(crate) async fn open(&self, verbose: bool) -> Result<Arc<dyn Store>, Failure> {
        let args = StoreArgs { store: self.store.clone(), namespace: None };
        open::store(&args, verbose).await
    }
}

/// A namespace that nobody else has.
pub(crate) fn namespace(command: &str) -> String {
    format!("tenure-{command}-{}", chance::name())
}

/// The locks of a namespace, with leases of this ttl.
pub(crate) async fn locks(
    store: Arc<dyn Store>,
    namespace: &str,
    ttl: Duration,
) -> Result<Locks, Failure> {
    let builder = Locks::builder().shared(true).namespace(namespace).default_ttl(ttl);
    let opened = builder.open_on(store).await;
    opened.map_err(|error| Failure::of_error(&error.during(Operation::Open)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_namespace_is_one_and_new() {
        let first = namespace("verify");
        assert!(tenure::Namespace::new(&first).is_ok() && first.starts_with("tenure-verify-"));
        assert_ne!(first, namespace("verify"));
    }
}

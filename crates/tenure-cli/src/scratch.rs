//! A namespace of one's own on the user's store, for commands that try the store out.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Locks, Operation, Store};

use crate::chance;
use crate::failure::Failure;

/// A namespace that nobody else has.
///
/// # Errors
/// As [`chance::name`].
pub(crate) fn namespace(command: &str) -> Result<String, Failure> {
    Ok(format!("tenure-{command}-{}", chance::name()?))
}

/// The locks of a namespace, with leases of this ttl.
pub(crate) async fn locks(
    store: Arc<dyn Store>,
    namespace: &str,
    ttl: Duration,
) -> Result<Locks, Failure> {
    let builder = Locks::builder().shared(true).namespace(namespace).default_ttl(ttl);
    let opened = builder.open_on(store).await;
    opened.map_err(|error| Failure::advised(&error.during(Operation::Open)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_namespace_is_one_and_new() {
        let first = namespace("verify").unwrap();
        assert!(tenure::Namespace::new(&first).is_ok() && first.starts_with("tenure-verify-"));
        assert_ne!(first, namespace("verify").unwrap());
    }
}

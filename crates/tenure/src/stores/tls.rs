//! The one cryptography that all stores use for TLS.

/// Makes ring the process's choice, unless the program has made one: without this, a client
/// library that leaves the choice to the program would panic.
pub(crate) fn use_ring() {
    // The error says that one is installed already, which is what was wanted.
    drop(rustls::crypto::ring::default_provider().install_default()); // tidy-allow: rustls's word
}

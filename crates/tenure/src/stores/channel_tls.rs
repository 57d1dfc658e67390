//! TLS for stores that speak gRPC: what to trust and what to show.

use std::path::Path;
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::error::{Error, Result};
use crate::stores::tls;

/// What a URL says about TLS, each as an option of this name.
#[derive(Debug)]
pub(crate) struct TlsFiles<'a> {
    pub(crate) ca: Option<&'a Path>,
    pub(crate) cert: Option<&'a Path>,
    pub(crate) key: Option<&'a Path>,
    pub(crate) server_name: Option<&'a str>,
}

impl TlsFiles<'_> {
    /// Refuses these options where they would be ignored: `scheme` is the one with TLS.
    pub(crate) fn refuse_without_tls(&self, scheme: &str) -> Result<()> {
        let Self { ca, cert, key, server_name } = self;
        if ca.is_none() && cert.is_none() && key.is_none() && server_name.is_none() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "options ca, cert, key and server_name are for TLS: the URL must begin with {scheme}:"
        )))
    }

    /// The settings of a connection whose handshake may take so long.
    pub(crate) fn config(&self, limit: Duration) -> Result<ClientTlsConfig> {
        tls::use_ring();
        let mut tls = ClientTlsConfig::new().timeout(limit);
        tls = match self.ca {
            Some(ca) => tls.ca_certificate(Certificate::from_pem(read("ca", ca)?)),
            None => tls.with_native_roots(),
        };
        tls = match (self.cert, self.key) {
            (Some(cert), Some(key)) => {
                tls.identity(Identity::from_pem(read("cert", cert)?, read("key", key)?))
            }
            (None, None) => tls,
            _ => return Err(Error::invalid("options cert and key go together")),
        };
        Ok(match self.server_name {
            Some(name) => tls.domain_name(name),
            None => tls,
        })
    }
}

fn read(name: &str, file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| {
        Error::invalid(format!("the file of option {name} cannot be read: {error}"))
    })
}

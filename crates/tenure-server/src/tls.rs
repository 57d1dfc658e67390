//! Encryption: the server's certificate, and the names in those of clients.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::config::TlsConfig;
use crate::failure::Failure;

/// What connections are encrypted with. It can be replaced while the server runs.
#[derive(Debug)]
pub(crate) struct Encryption(RwLock<Arc<ServerConfig>>);

impl Encryption {
    /// Reads certificates and key.
    pub(crate) fn read(config: &TlsConfig) -> Result<Self, Failure> {
        Ok(Self(RwLock::new(read(config)?)))
    }

    /// Reads them anew; on a failure everything stays as it was.
    pub(crate) fn reload(&self, config: &TlsConfig) -> Result<(), Failure> {
        let new = read(config)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read(config: &TlsConfig) -> Result<Arc<ServerConfig>, Failure> {
    let ring = Arc::new(rustls::crypto::ring::default_provider()); // tidy-allow: its name
    let chain = certificates("tls.cert", &config.cert)?;
    let key = PrivateKeyDer::from_pem_file(&config.key)
        .map_err(|error| unreadable("tls.key", &config.key, &error))?;
    let wrong = |error: rustls::Error| Failure::invalid(format!("tls cannot be used: {error}"));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&ring)) // tidy-allow: its name
        .with_safe_default_protocol_versions()
        .map_err(wrong)?;
    let builder = match &config.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("tls.client_ca", path)? {
                roots.add(certificate).map_err(wrong)?;
            }
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, ring); // tidy-allow: its name
            let verifier =
                if config.client_required { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier.build().map_err(|error| {
                Failure::invalid(format!("tls.client_ca cannot be used: {error}"))
            })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut server = builder.with_single_cert(chain, key).map_err(wrong)?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(server))
}

fn certificates(field: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let unreadable = |error| unreadable(field, path, &error);
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if found.is_empty() {
        let text = format!("{field}: there is no certificate in {}", path.display());
        return Err(Failure::invalid(text));
    }
    Ok(found)
}

fn unreadable(field: &str, path: &Path, error: &rustls::pki_types::pem::Error) -> Failure {
    Failure::invalid(format!("{field}: {} cannot be read: {error}", path.display()))
}

/// The names that a verified certificate was made for: its subject alternative names. The common
/// name is none of them.
pub(crate) fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return Vec::new() };
    let uris = certificate.valid_uri_names().map(str::to_owned);
    let hosts = certificate.valid_dns_names().map(str::to_owned);
    uris.chain(hosts).collect()
}

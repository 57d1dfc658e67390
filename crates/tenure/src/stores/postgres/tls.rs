//! What is checked of the server's certificate, and the certificate that this client shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};
use crate::stores::tls as shared;

/// What of the server's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Verify {
    /// Nothing, as libpq's `prefer` does: who could put a false certificate in the way could as
    /// well say that the server has no TLS.
    #[default]
    Nothing,
    /// That it comes from a trusted issuer.
    Issuer,
    /// That, and that it is for this host.
    IssuerAndName,
}

/// How connections are secured.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls {
    pub(super) verify: Verify,
    pub(super) root: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl Tls {
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect> {
        shared::use_ring();
        let verifier = self.verifier()?;
        let config = ClientConfig::builder().dangerous().with_custom_certificate_verifier(verifier);
        let config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates("sslcert", certificate)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable("sslkey", e))?;
                config.with_client_auth_cert(chain, key).map_err(|error| {
                    Error::invalid("sslcert and sslkey do not fit together").caused_by(error)
                })?
            }
            (None, None) => config.with_no_client_auth(),
            _ => return Err(Error::invalid("sslcert and sslkey must be given together")),
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>> {
        let issuer = match self.verify {
            Verify::Nothing => None,
            Verify::Issuer | Verify::IssuerAndName => Some(self.issuer()?),
        };
        Ok(match (self.verify, issuer) {
            (Verify::IssuerAndName, Some(strict)) => strict,
            (_, issuer) => Arc::new(Lenient { issuer, algorithms: algorithms() }),
        })
    }

    fn issuer(&self) -> Result<Arc<WebPkiServerVerifier>> {
        WebPkiServerVerifier::builder(Arc::new(self.roots()?)).build().map_err(|error| {
            Error::invalid("the root certificates cannot be used").caused_by(error)
        })
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let found = match self.root.as_deref().filter(|path| *path != Path::new("system")) {
            Some(path) => certificates("sslrootcert", path)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        let (added, _) = roots.add_parsable_certificates(found);
        if added == 0 {
            let text = "there are no root certificates: name a file of them with sslrootcert";
            return Err(Error::invalid(text));
        }
        Ok(roots)
    }
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(option, error))?;
    match found.is_empty() {
        true => Err(Error::invalid(format!("the file that {option} names holds no certificate"))),
        false => Ok(found),
    }
}

fn unreadable(option: &str, error: rustls::pki_types::pem::Error) -> Error {
    Error::invalid(format!("the file that {option} names cannot be read as PEM")).caused_by(error)
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms // tidy-allow: rustls names it so
}

/// Checks less than rustls does: not the name, or nothing but that the server has the key.
#[derive(Debug)]
struct Lenient {
    issuer: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(issuer) = &self.issuer else { return Ok(ServerCertVerified::assertion()) };
        match issuer.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is checked last, when all else is right.
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

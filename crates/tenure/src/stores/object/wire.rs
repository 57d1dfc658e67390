//! HTTP to the store: what went wrong on the way, in a form that can be told apart.
//!
//! `object_store` keeps the status of an answer to itself. So every answer that is not a success
//! leaves here as an error of our own, which `error.rs` finds again in the chain of causes. Nothing
//! is sent twice: retrying is for the engine, which knows what may have happened.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};

use crate::error::{Error, Result};
use crate::stores::cause::cause;

/// Longer than a small request takes. The engine has a shorter limit of its own.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Shorter than servers keep an idle connection: a request on one that they have just closed would
/// be in doubt.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// More than any code of an error has.
const CODE_MAX: usize = 64;

/// What went wrong with one request.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// It was a conditional write, and not a read or a request for credentials.
    pub(super) is_write: bool,
    pub(super) what: What,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The store answered no.
    Answer {
        status: u16,
        /// Its own word for it: `NoSuchBucket`, `SlowDown`. May be empty.
        code: String,
    },
    /// There was no connection, so nothing was sent.
    NotSent,
    /// Nobody gives credentials to this machine.
    NoCredentials,
    /// Sent, perhaps, and not answered.
    NoAnswer,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Answer { status, code } if code.is_empty() => write!(f, "answered {status}"),
            What::Answer { status, code } => write!(f, "answered {status} {code}"),
            What::NotSent => f.write_str("no connection"),
            What::NoCredentials => f.write_str("no credentials"),
            What::NoAnswer => f.write_str("no answer"),
        }
    }
}

impl StdError for Fault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as &(dyn StdError + 'static))
    }
}

impl Fault {
    #[cfg(test)]
    pub(super) fn new(is_write: bool, what: What) -> Self {
        Self { is_write, what, cause: None }
    }

    /// The fault among the causes of an error.
    pub(super) fn of(error: &object_store::Error) -> Option<Self> {
        cause::<Self>(error).cloned()
    }
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Makes the clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    /// The store is on this very machine, where no proxy leads to.
    pub(super) is_local: bool,
    /// Certificates to trust besides the system's.
    pub(super) roots: Vec<reqwest::Certificate>,
}

impl Wire {
    /// Trusts the certificates in this file too.
    pub(super) fn trust(&mut self, path: &std::path::Path) -> Result<()> {
        let bad = |why: &str| Error::invalid(format!("option ca: {} {why}", path.display()));
        let pem = std::fs::read(path).map_err(|error| bad("cannot be read").caused_by(error))?;
        self.roots = reqwest::Certificate::from_pem_bundle(&pem)
            .map_err(|error| bad("is not PEM").caused_by(error))?;
        if self.roots.is_empty() {
            return Err(bad("holds no certificate in PEM"));
        }
        Ok(())
    }
}

impl HttpConnector for Wire {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        crate::stores::tls::use_ring(); // tidy-allow
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp);
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .timeout(ANSWER_WITHIN)
            .connect_timeout(CONNECT_WITHIN)
            .pool_idle_timeout(IDLE_MAX)
            .http1_only()
            .https_only(plain.as_deref() != Some("true"))
            // A compressed body has another ETag, and no length.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .retry(reqwest::retry::never())
            .tls_certs_merge(self.roots.clone());
        if self.is_local {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| object_store::Error::Generic {
            store: "HTTP",
            source: Box::new(error.without_url()),
        })?;
        Ok(HttpClient::new(Line(client)))
    }
}

#[derive(Debug)]
struct Line(reqwest::Client);

#[async_trait]
impl HttpService for Line {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let is_write = is_conditional_write(&request);
        let for_credentials = request.uri().host().is_some_and(gives_credentials);
        let fault = |what| Fault { is_write, what, cause: None };
        match self.0.call(request).await {
            Ok(answer) if answer.status().is_success() => Ok(answer),
            Ok(_) if for_credentials => {
                Err(HttpError::new(HttpErrorKind::Unknown, fault(What::NoCredentials)))
            }
            Ok(answer) => {
                let status = answer.status().as_u16();
                let code = code(answer).await;
                Err(HttpError::new(HttpErrorKind::Unknown, fault(What::Answer { status, code })))
            }
            Err(error) => {
                let kind = error.kind();
                let not_sent = causes(&error)
                    .filter_map(|cause| cause.downcast_ref::<reqwest::Error>())
                    .any(|error| error.is_connect() || error.is_builder());
                let what = match (for_credentials, not_sent) {
                    (true, _) => What::NoCredentials,
                    (false, true) => What::NotSent,
                    (false, false) => What::NoAnswer,
                };
                Err(HttpError::new(kind, Fault { cause: Some(Arc::new(error)), ..fault(what) }))
            }
        }
    }
}

fn is_conditional_write(request: &HttpRequest) -> bool {
    let conditions = ["if-match", "if-none-match", "x-goog-if-generation-match"];
    request.method().as_str() == "PUT"
        && conditions.iter().any(|name| request.headers().contains_key(*name))
}

/// The addresses at which a cloud's machines ask for their own credentials.
fn gives_credentials(host: &str) -> bool {
    host.starts_with("169.254.") || host == "metadata.google.internal"
}

/// The store's own word for its refusal, from the XML or the header of its answer. Nothing else of
/// the answer is kept: it may repeat what was signed.
async fn code(answer: HttpResponse) -> String {
    let header = answer.headers().get("x-ms-error-code");
    let header = header.and_then(|code| code.to_str().ok()).map(str::to_owned);
    match header {
        Some(code) => word(code),
        None => code_in(&answer.into_body().bytes().await.unwrap_or_default()),
    }
}

pub(super) fn code_in(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    word(code.map(|(code, _)| code.to_owned()).unwrap_or_default())
}

fn word(code: String) -> String {
    let is_a_word = code.len() <= CODE_MAX && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_a_word { code } else { String::new() }
}

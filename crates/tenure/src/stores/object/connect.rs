//! From the options to a store that has been tried out.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleConfigKey::BaseUrl;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::{ClientOptions, RetryConfig, StaticCredentialProvider}; // tidy-allow

use super::bucket::{BucketRegister, NAME_BYTES_MAX, ttl_min};
use super::folder::FolderRegister;
use super::objects::{Bucket, Objects, Tags};
use super::options::{Cloud, ObjectOptions, Place};
use super::pace::Pace;
use super::probe::{self, Probe, Tried};
use super::wire::Wire;
use crate::clock::{Clock, within};
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::random::SystemRandom;
use crate::store::{Capabilities, Store, StoreInfo, Timing};
use crate::stores::register::{Register, RegisterStore};
use crate::watch::WatchHub;

const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// Google's own service.
const GOOGLE: &str = "https://storage.googleapis.com";

/// Google takes one write per second and object.
const GOOGLE_INTERVAL: Duration = Duration::from_secs(1);

impl ObjectOptions {
    /// Connects and tries the store out.
    ///
    /// # Errors
    /// `Unsupported` when the store does not keep to conditions; otherwise what is wrong with the
    /// options, the credentials, the bucket or the way there.
    pub async fn open(self, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
        let register: Arc<dyn Register> = match &self.place {
            Place::Folder(path) => Arc::new(FolderRegister::open(path, Arc::clone(&clock)).await?),
            Place::Bucket { cloud, bucket, prefix } => {
                let register = self.bucket(*cloud, bucket, prefix, &clock);
                let late = |_| Error::unavailable("the object store did not answer in 10 s");
                Arc::new(within(&*clock, OPEN_WITHIN, register).await.map_err(late)??)
            }
        };
        Ok(Arc::new(RegisterStore::new(register, clock, Arc::new(SystemRandom))))
    }

    async fn bucket(
        &self,
        cloud: Cloud,
        bucket: &str,
        prefix: &str,
        clock: &Arc<dyn Clock>,
    ) -> Result<BucketRegister> {
        let interval = self.write_interval.unwrap_or(match cloud {
            Cloud::Google => GOOGLE_INTERVAL,
            Cloud::Amazon | Cloud::Azure => Duration::ZERO,
        });
        let is_googles = cloud == Cloud::Google && is_googles(&self.google_base());
        let probe = self.probe.unwrap_or(if is_googles { Probe::Quick } else { Probe::Full });
        let tags = match cloud {
            Cloud::Google => Tags::Generation,
            Cloud::Amazon | Cloud::Azure => Tags::ETag,
        };
        let pace = Pace::new(interval, Arc::clone(clock));
        let bucket = self.client(cloud, bucket)?;
        let objects = Objects { bucket, tags, prefix: prefix.to_owned(), pace };
        let tried = probe::run(&objects, &SystemRandom, probe).await?;
        let findings = findings(is_googles, probe, tried);
        let capabilities = Capabilities {
            shared: true,
            durable: true,
            wakes: false,
            ttl_min: ttl_min(interval),
            key_bytes_max: NAME_BYTES_MAX - prefix.len(),
            ..Capabilities::default()
        };
        let info = StoreInfo::new("object", Timing::Observer, capabilities, findings);
        Ok(BucketRegister { info, objects, watches: WatchHub::default() })
    }

    fn client(&self, cloud: Cloud, bucket: &str) -> Result<Arc<dyn Bucket>> {
        let mut wire = Wire { is_local: self.is_local(), ..Wire::default() };
        if let Some(ca) = &self.ca {
            wire.trust(ca)?;
        }
        let is_plain = |endpoint: &String| endpoint.starts_with("http://");
        if self.endpoint.as_ref().is_some_and(is_plain) && self.allow_http != Some(true) {
            let text = "the endpoint has no TLS: begin it with https://, or set allow_http=true";
            return Err(Error::invalid(text));
        }
        let bad = |error: object_store::Error| {
            Error::invalid(format!("the options make no client: {error}"))
        };
        Ok(match cloud {
            Cloud::Amazon => Arc::new(self.amazon(bucket, wire).build().map_err(bad)?),
            Cloud::Google => Arc::new(self.google(bucket, wire).build().map_err(bad)?),
            Cloud::Azure => Arc::new(self.azure(bucket, wire).build().map_err(bad)?),
        })
    }

    fn amazon(&self, bucket: &str, wire: Wire) -> AmazonS3Builder {
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(no_retries())
            .with_http_connector(wire);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let Some(path_style) = self.path_style {
            builder = builder.with_virtual_hosted_style_request(!path_style);
        }
        if let Some(allow) = self.allow_http {
            builder = builder.with_allow_http(allow);
        }
        if let Some(anonymous) = self.anonymous {
            builder = builder.with_skip_signature(anonymous);
        }
        if let Some(id) = &self.access_key {
            builder = builder.with_access_key_id(id);
        }
        if let Some(secret) = &self.secret {
            builder = builder.with_secret_access_key(secret);
        }
        if let Some(token) = &self.session_token {
            builder = builder.with_token(token);
        }
        builder
    }

    fn google(&self, bucket: &str, wire: Wire) -> GoogleCloudStorageBuilder {
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(bucket)
            .with_base_url(&self.google_base())
            .with_retry(no_retries())
            .with_http_connector(wire);
        if let Some(allow) = self.allow_http {
            builder = builder.with_client_options(ClientOptions::new().with_allow_http(allow));
        }
        if self.anonymous == Some(true) {
            // Writes ask for credentials all the same.
            let nobody = GcpCredential { bearer: String::new() };
            let nobody = StaticCredentialProvider::new(nobody); // tidy-allow
            builder = builder.with_skip_signature(true).with_credentials(Arc::new(nobody));
        }
        if let Some(path) = &self.service_account {
            builder = builder.with_service_account_path(path.to_string_lossy());
        }
        builder
    }

    /// Where the service is that is taken for Google's. Never left to a file of credentials, which
    /// may name another.
    fn google_base(&self) -> String {
        let usual = || GoogleCloudStorageBuilder::from_env().get_config_value(&BaseUrl);
        self.endpoint.clone().or_else(usual).unwrap_or_else(|| GOOGLE.to_owned())
    }

    fn azure(&self, container: &str, wire: Wire) -> MicrosoftAzureBuilder {
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_container_name(container)
            .with_retry(no_retries())
            .with_http_connector(wire);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        if let Some(allow) = self.allow_http {
            builder = builder.with_allow_http(allow);
        }
        if let Some(anonymous) = self.anonymous {
            builder = builder.with_skip_signature(anonymous);
        }
        if let Some(account) = &self.account {
            builder = builder.with_account(account);
        }
        if let Some(key) = &self.secret {
            builder = builder.with_access_key(key);
        }
        builder
    }

    fn is_local(&self) -> bool {
        let endpoint = self.endpoint.as_deref().and_then(|text| url::Url::parse(text).ok());
        match endpoint.as_ref().and_then(url::Url::host) {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }
}

/// A write that is sent again after a lost answer meets itself.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Whether this is Google's own service, under whichever of its names.
fn is_googles(base: &str) -> bool {
    let host = url::Url::parse(base).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| host.ends_with(".googleapis.com"))
}

fn findings(is_googles: bool, probe: Probe, tried: Tried) -> Vec<Finding> {
    let tried = match (tried, probe) {
        (Tried::AtOnce, _) => {
            Finding::note("probe", "conditional writes held, one by one and at once")
        }
        (Tried::OneByOne, Probe::Full) => Finding::lowering(
            "probe",
            "conditional writes held one by one; whether they do at the same time could not be \
             tried, because the store turned most of them away",
        )
        .remedy("open it again when the store is less busy, or raise its limit"),
        // It takes one write per second and object: a race would show nothing.
        (Tried::OneByOne, Probe::Quick) if is_googles => {
            let text = "conditional writes held one by one; that they do at once is Google's word";
            Finding::note("probe", text)
        }
        (Tried::OneByOne, Probe::Quick) => Finding::lowering(
            "probe",
            "conditional writes held one by one; whether they do at the same time was not tried",
        )
        .remedy("leave out probe=quick"),
    };
    let kept = "a lease ends when an observer has seen it unchanged for its whole ttl";
    vec![tried, Finding::note("timing", kept)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_googles_own_service_is_taken_at_its_word() {
        for own in [GOOGLE, "https://storage-locks.p.googleapis.com"] {
            assert!(is_googles(own), "{own}");
        }
        for other in ["http://127.0.0.1:4443", "https://googleapis.com.example", "gs", ""] {
            assert!(!is_googles(other), "{other}");
        }
    }
}

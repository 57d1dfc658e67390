//! Where the objects are, and how to get at them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::probe::Probe;
use crate::error::{Error, ErrorKind, Result};
use crate::stores::options::UrlOptions;

/// Longer than anyone's, and short enough to leave room for keys.
const PREFIX_BYTES_MAX: usize = 256;

/// Whose storage it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cloud {
    Amazon,
    Google,
    Azure,
}

/// Where the objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Bucket {
        cloud: Cloud,
        bucket: String,
        /// Empty, or ends with a slash.
        prefix: String,
    },
    Folder(PathBuf),
}

/// How to open a store of objects: what the URL says, and what is set in code. What is set nowhere
/// comes from the environment, as the cloud's own tools read it.
#[derive(Clone)]
pub struct ObjectOptions {
    pub(super) place: Place,
    pub(super) endpoint: Option<String>,
    pub(super) region: Option<String>,
    pub(super) path_style: Option<bool>,
    pub(super) allow_http: Option<bool>,
    pub(super) anonymous: Option<bool>,
    pub(super) account: Option<String>,
    pub(super) access_key: Option<String>,
    pub(super) secret: Option<String>,
    pub(super) session_token: Option<String>,
    pub(super) service_account: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
    pub(super) probe: Option<Probe>,
    pub(super) write_interval: Option<Duration>,
}

impl fmt::Debug for ObjectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectOptions").field("place", &self.place).finish_non_exhaustive()
    }
}

impl ObjectOptions {
    /// What the URL says.
    ///
    /// # Errors
    /// `Invalid`, with the option or the part of the URL that is wrong.
    pub fn new(url: &str) -> Result<Self> {
        if let Some(rest) = url.strip_prefix("folder:") {
            return Self::folder(rest);
        }
        let (url, mut given) = UrlOptions::split(url)?;
        let (cloud, known) = match url.scheme() {
            "s3" => (Cloud::Amazon, AMAZON),
            "gs" => (Cloud::Google, GOOGLE),
            "az" => (Cloud::Azure, AZURE),
            _ => {
                return Err(Error::invalid("store must begin with s3://, gs://, az:// or folder:"));
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            let text = "credentials belong into the environment or the options, not before the @";
            return Err(Error::invalid(text));
        }
        let bucket = url.host_str().filter(|bucket| !bucket.is_empty());
        let Some(bucket) = bucket.map(str::to_owned) else {
            return Err(Error::invalid("the URL names no bucket: s3://BUCKET/PREFIX"));
        };
        if cloud == Cloud::Amazon && bucket.ends_with("--x-s3") {
            let text = "directory buckets do not list in order: use a general purpose bucket";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let prefix = checked_prefix(url.path())?;
        let mut options = Self::at(Place::Bucket { cloud, bucket, prefix });
        options.take(cloud, &mut given)?;
        given.finish(known)?;
        Ok(options)
    }

    fn folder(rest: &str) -> Result<Self> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() {
            return Err(Error::invalid("folder: needs a path, such as folder:/var/lib/app/locks"));
        }
        // No percent signs: a path is a path.
        UrlOptions::split(&format!("folder:/?{query}"))?.1.finish(&["none"])?;
        Ok(Self::at(Place::Folder(path.into())))
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            endpoint: None,
            region: None,
            path_style: None,
            allow_http: None,
            anonymous: None,
            account: None,
            access_key: None,
            secret: None,
            session_token: None,
            service_account: None,
            ca: None,
            probe: None,
            write_interval: None,
        }
    }

    fn take(&mut self, cloud: Cloud, given: &mut UrlOptions) -> Result<()> {
        self.endpoint = given.text("endpoint");
        self.allow_http = given.flag("allow_http")?;
        self.anonymous = given.flag("anonymous")?;
        self.ca = given.text("ca").map(Into::into);
        self.probe = match given.text("probe").as_deref() {
            None => None,
            Some("full") => Some(Probe::Full),
            Some("quick") => Some(Probe::Quick),
            Some(_) => return Err(Error::invalid("option probe must be full or quick")),
        };
        let interval = given.parsed("write_interval_ms", "a number of milliseconds")?;
        self.write_interval = interval.map(Duration::from_millis);
        match cloud {
            Cloud::Amazon => {
                self.region = given.text("region");
                self.path_style = given.flag("path_style")?;
                self.access_key = given.text("access_key_id");
                self.secret = given.text("secret_access_key");
                self.session_token = given.text("session_token");
            }
            Cloud::Google => self.service_account = given.text("service_account").map(Into::into),
            Cloud::Azure => {
                self.account = given.text("account");
                self.secret = given.text("access_key");
            }
        }
        Ok(())
    }

    /// Where the service is, when not at the cloud's own address: `https://HOST:PORT`.
    #[must_use]
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// S3: the region of the bucket.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// S3: the bucket is in the path of a request (the default), and not in the name of the host.
    #[must_use]
    pub fn path_style(mut self, path_style: bool) -> Self {
        self.path_style = Some(path_style);
        self
    }

    /// The endpoint may be without TLS.
    #[must_use]
    pub fn allow_http(mut self, allow: bool) -> Self {
        self.allow_http = Some(allow);
        self
    }

    /// Requests are not signed.
    #[must_use]
    pub fn anonymous(mut self, anonymous: bool) -> Self {
        self.anonymous = Some(anonymous);
        self
    }

    /// S3: the access key and its secret.
    #[must_use]
    pub fn access_key(mut self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        (self.access_key, self.secret) = (Some(id.into()), Some(secret.into()));
        self
    }

    /// S3: the token that belongs to a temporary access key.
    #[must_use]
    pub fn session_token(mut self, token: impl Into<String>) -> Self {
        self.session_token = Some(token.into());
        self
    }

    /// Azure: the storage account and its key.
    #[must_use]
    pub fn account(mut self, name: impl Into<String>, key: impl Into<String>) -> Self {
        (self.account, self.secret) = (Some(name.into()), Some(key.into()));
        self
    }

    /// Google: the file with the key of a service account.
    #[must_use]
    pub fn service_account(mut self, path: impl Into<PathBuf>) -> Self {
        self.service_account = Some(path.into());
        self
    }

    /// A file with the certificates, in PEM, of those who may sign the service's own.
    #[must_use]
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca = Some(path.into());
        self
    }

    /// How thoroughly the store is tried out when it is opened.
    #[must_use]
    pub fn probe(mut self, probe: Probe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// How far apart this process keeps its writes of one object.
    #[must_use]
    pub fn write_interval(mut self, interval: Duration) -> Self {
        self.write_interval = Some(interval);
        self
    }
}

const AMAZON: &[&str] = &[
    "access_key_id",
    "allow_http",
    "anonymous",
    "ca",
    "endpoint",
    "path_style",
    "probe",
    "region",
    "secret_access_key",
    "session_token",
    "write_interval_ms",
];
const GOOGLE: &[&str] =
    &["allow_http", "anonymous", "ca", "endpoint", "probe", "service_account", "write_interval_ms"];
const AZURE: &[&str] = &[
    "access_key",
    "account",
    "allow_http",
    "anonymous",
    "ca",
    "endpoint",
    "probe",
    "write_interval_ms",
];

/// The prefix that a path names: empty, or ends with a slash.
fn checked_prefix(path: &str) -> Result<String> {
    let path = path.trim_matches('/');
    if path.is_empty() {
        return Ok(String::new());
    }
    if path.len() > PREFIX_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the prefix must have at most {PREFIX_BYTES_MAX} bytes, it has {}",
            path.len()
        )));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '=' | '+');
    let is_good = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(is_plain);
    if !path.split('/').all(is_good) {
        let text = "the prefix may contain only A-Z a-z 0-9 . _ - = + and single slashes";
        return Err(Error::invalid(text));
    }
    Ok(format!("{path}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Place {
        ObjectOptions::new(url).unwrap().place
    }

    #[test]
    fn urls_name_cloud_bucket_and_prefix() {
        let bucket = |cloud, bucket: &str, prefix: &str| Place::Bucket {
            cloud,
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        assert_eq!(place("s3://my.bucket_1"), bucket(Cloud::Amazon, "my.bucket_1", ""));
        assert_eq!(place("s3://b/"), bucket(Cloud::Amazon, "b", ""));
        assert_eq!(place("gs://b/locks/eu/"), bucket(Cloud::Google, "b", "locks/eu/"));
        assert_eq!(place("az://b/x?account=a"), bucket(Cloud::Azure, "b", "x/"));
        assert_eq!(place("folder:/a b/c%20"), Place::Folder("/a b/c%20".into()));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_secret_shown() {
        for (url, text) in [
            ("s3://", "bucket"),
            ("s3:///p", "bucket"),
            ("s3://hush:hush@b/p", "before the @"),
            ("s3://b--use1-az4--x-s3", "directory"),
            ("s3://b/a//b", "prefix"),
            ("s3://b/a%20b", "prefix"),
            ("s3://b?acount=hush", "access_key_id"),
            ("az://b?region=hush", "account"),
            ("s3://b?probe=hush", "full or quick"),
            ("s3://b?allow_http=hush", "true or false"),
            ("folder:", "path"),
            ("folder:/p?region=hush", "not known"),
        ] {
            let error = ObjectOptions::new(url).unwrap_err().to_string();
            assert!(error.contains(text) && !error.contains("hush"), "{url}: {error}");
        }
        let options = ObjectOptions::new("s3://b?secret_access_key=hush").unwrap();
        assert!(!format!("{options:?}").contains("hush"));
    }
}

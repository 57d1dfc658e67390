//! The bucket: found or made, never changed, and what its configuration is worth.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use serde::Deserialize;
use serde_json::json;

use super::error::Silence;
use super::error::{no_jetstream, refused, silent};
use super::link::Link;
use super::making::Made;
use super::options::{NatsOptions, Storage};
use crate::effect::Effect;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::store::Timing;

/// How long the mark of a released or expired key stays. Long enough for every watcher to see it,
/// short enough that keys which are used once leave nothing behind.
pub(super) const MARKER_TTL: Duration = Duration::from_secs(10);

/// A bucket that fits.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) name: String,
    pub(super) stream: String,
    /// A message may carry a time after which the server removes it.
    pub(super) takes_ttl: bool,
    pub(super) timing: Timing,
    pub(super) is_durable: bool,
    pub(super) made: Made,
    pub(super) findings: Vec<Finding>,
}

/// What is told of a bucket.
#[derive(Deserialize)]
struct Told {
    config: Config,
    created: String,
}

impl Bucket {
    pub(super) async fn open(link: &Link, options: &NatsOptions) -> Result<Self> {
        let said = link.server_version();
        let version = Version::parse(&said);
        let connection = link.connections();
        let stream = format!("KV_{}", options.bucket);
        let told = match find(link, &stream).await? {
            Some(told) => told,
            None if options.create => {
                make(link, &wanted(options, version, link.clock().wall())).await?
            }
            None => {
                let name = &options.bucket;
                return Err(Error::invalid(format!(
                    "bucket {name:?} does not exist and create is false: make it, with history 1 \
                     and without a TTL, or let tenure do that"
                )));
            }
        };
        let made = Made { created: told.created, connection };
        let mut bucket = examine(&told.config, options, version, made)?;
        bucket.findings.insert(0, Finding::note("version", format!("NATS {said}")));
        Ok(bucket)
    }
}

async fn find(link: &Link, stream: &str) -> Result<Option<Told>> {
    match link.api::<Told>(&format!("STREAM.INFO.{stream}"), &json!({})).await {
        Ok(Ok(told)) => Ok(Some(told)),
        Ok(Err(error)) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => Ok(None),
        Ok(Err(error)) => Err(refused(&error)),
        Err(Silence::NoResponders) => Err(no_jetstream()),
        Err(silence) => Err(silent(silence, Effect::Read)),
    }
}

async fn make(link: &Link, config: &Config) -> Result<Told> {
    match link.api::<Told>(&format!("STREAM.CREATE.{}", config.name), config).await {
        Ok(Ok(told)) => Ok(told),
        // Another process was faster, and asked for something else.
        Ok(Err(error)) if error.error_code() == ErrorCode::STREAM_NAME_EXIST => {
            find(link, &config.name).await?.ok_or_else(|| refused(&error))
        }
        Ok(Err(error)) => Err(Error::invalid(format!("the bucket cannot be made: {error}"))),
        Err(silence) => Err(silent(silence, Effect::Read)),
    }
}

/// A bucket as other clients of the key-value store make it, too. But its sequences begin with the
/// microseconds since 1970, so that one that is made again goes on above what it was before.
fn wanted(options: &NatsOptions, version: Version, now: SystemTime) -> Config {
    let by_store = version.expires_reliably() && options.timing != Some(Timing::Observer);
    let time = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let first_sequence = u64::try_from(time.as_micros()).ok().filter(|_| version >= V2_10);
    Config {
        name: format!("KV_{}", options.bucket),
        subjects: vec![format!("$KV.{}.>", options.bucket)],
        description: options.description.clone(),
        max_messages_per_subject: 1,
        max_messages: -1,
        max_bytes: -1,
        max_message_size: -1,
        max_consumers: -1,
        discard: DiscardPolicy::New,
        storage: match options.storage {
            Some(Storage::Memory) => StorageType::Memory,
            Some(Storage::File) | None => StorageType::File,
        },
        num_replicas: options.replicas.unwrap_or(1),
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        first_sequence,
        allow_message_ttl: by_store,
        subject_delete_marker_ttl: by_store.then_some(MARKER_TTL),
        ..Config::default()
    }
}

/// Major, minor and patch of a server; zeros where it says nothing that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

/// The first that lets a stream begin with any sequence, and knows `sync_interval`.
const V2_10: Version = Version(2, 10, 0);

impl Version {
    fn parse(text: &str) -> Self {
        let mut numbers = text.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Self(next(), next(), next())
    }

    /// Whether it ends each message by its own time, and in time: versions before 2.11 take the
    /// order and ignore it, and the first ones after can put it off for ever.
    fn expires_reliably(self) -> bool {
        match self {
            Self(2, 11, patch) => patch >= 10,
            Self(2, 12, patch) => patch >= 1,
            Self(major, minor, _) => (major, minor) > (2, 12),
        }
    }
}

fn examine(config: &Config, options: &NatsOptions, version: Version, made: Made) -> Result<Bucket> {
    let name = options.bucket.clone();
    let expires = version.expires_reliably();
    fits(config, &name)?;
    as_asked(config, options)?;
    let takes_ttl = config.allow_message_ttl;
    let timing = if takes_ttl && expires { Timing::Store } else { Timing::Observer };
    if let Some(asked) = options.timing.filter(|asked| *asked != timing) {
        let word = |timing| if timing == Timing::Store { "store" } else { "observer" };
        let (asked, is) = (word(asked), word(timing));
        return Err(mismatch(
            &name,
            format!(
                "gives timing={is} (allow_msg_ttl is {takes_ttl}), but timing={asked} is asked for"
            ),
        ));
    }
    let is_durable = config.storage == StorageType::File;
    let mut findings = Vec::new();
    findings.extend(told_of_timing(config, timing, expires));
    findings.extend(told_of_storage(config, options, version));
    let stream = config.name.clone();
    Ok(Bucket { stream, name, takes_ttl, timing, is_durable, made, findings })
}

/// What no bucket of locks may be like.
fn fits(config: &Config, name: &str) -> Result<()> {
    let subject = format!("$KV.{name}.>");
    let wrong = if !config.max_age.is_zero() {
        let age = config.max_age;
        format!("has a TTL of {age:?} (max_age), which would end leases early; it must have none")
    } else if config.max_messages_per_subject != 1 {
        let history = config.max_messages_per_subject;
        format!("has history {history}, which would bring ended leases back; it must have 1")
    } else if config.mirror.is_some() || config.sources.as_ref().is_some_and(|s| !s.is_empty()) {
        "is a mirror or has sources; it must be written to directly".to_owned()
    } else if !config.subjects.contains(&subject) || config.subject_transform.is_some() {
        format!("does not take the subjects {subject} as they are: it is no key-value bucket")
    } else if config.retention != RetentionPolicy::Limits || config.no_ack || config.sealed {
        "has another retention than limits, gives no acks, or is sealed".to_owned()
    } else {
        return Ok(());
    };
    Err(mismatch(name, wrong))
}

fn as_asked(config: &Config, options: &NatsOptions) -> Result<()> {
    let storage = match config.storage {
        StorageType::File => Storage::File,
        StorageType::Memory => Storage::Memory,
    };
    let wrong = match (options.replicas, options.storage) {
        (Some(asked), _) if asked != config.num_replicas => {
            format!("has {} replicas, but replicas={asked} is asked for", config.num_replicas)
        }
        (_, Some(asked)) if asked != storage => {
            format!("has storage {storage}, but storage={asked} is asked for")
        }
        _ => return Ok(()),
    };
    Err(mismatch(&options.bucket, wrong))
}

fn mismatch(name: &str, wrong: String) -> Error {
    let text = format!("bucket {name:?} {wrong}; tenure changes no existing bucket");
    Error::new(ErrorKind::Mismatch, text)
}

fn told_of_timing(config: &Config, timing: Timing, expires: bool) -> Vec<Finding> {
    let stream = &config.name;
    let markers = config.subject_delete_marker_ttl.is_some_and(|ttl| !ttl.is_zero());
    match timing {
        Timing::Store if markers => vec![Finding::note(
            "allow_msg_ttl",
            "the server ends leases, by its wall clock: keep the servers' clocks in step",
        )],
        Timing::Store => vec![
            Finding::warning(
                "subject_delete_marker_ttl",
                "it is not set: a release wakes waiters, the end of a dead holder's lease does not",
            )
            .remedy(format!("set subject_delete_marker_ttl on the stream {stream}")),
        ],
        Timing::Observer if expires => vec![
            Finding::warning(
                "allow_msg_ttl",
                "it is not set, so waiters time leases by their own clocks: a dead holder's key \
                 is free only after a full ttl of watching",
            )
            .remedy(format!(
                "set allow_msg_ttl and subject_delete_marker_ttl on the stream {stream}, and \
                 restart all users of the bucket together"
            )),
        ],
        Timing::Observer => vec![
            Finding::warning(
                "version",
                "this server does not end single messages in time, so waiters time leases by \
                 their own clocks: a dead holder's key is free only after a full ttl of watching",
            )
            .remedy("run NATS 2.11.10, 2.12.1 or later"),
        ],
    }
}

fn told_of_storage(config: &Config, options: &NatsOptions, version: Version) -> Vec<Finding> {
    let mut findings = Vec::new();
    if config.storage == StorageType::Memory {
        let text = "the bucket is in memory: a restart of its servers loses locks and fences";
        findings.push(Finding::lowering("storage", text).remedy("use a bucket with storage=file"));
    } else if options.syncs_always && version < V2_10 {
        let text = "sync=always, but this server knows no sync_interval: it acknowledges before it \
                    syncs, and a power cut can lose grants and fences";
        findings.push(Finding::lowering("sync_interval", text).remedy("run NATS 2.10 or later"));
    } else if options.syncs_always {
        let text = "sync=always: that the servers sync every write is taken on trust";
        findings.push(Finding::note("sync_interval", text));
    } else {
        let text = "by default NATS acknowledges before it syncs (every 2 minutes): a power cut \
                    can lose grants and fences, a crash of the process cannot";
        let remedy = "set jetstream { sync_interval: always } on the servers and say sync=always";
        findings.push(Finding::lowering("sync_interval", text).remedy(remedy));
    }
    if config.num_replicas == 1 {
        let text = "one replica: the locks are away while its server is";
        findings.push(Finding::note("num_replicas", text));
    }
    let limited = config.max_messages > 0 || config.max_bytes > 0;
    if limited && config.discard == DiscardPolicy::Old {
        let text = "the bucket has limits and discards old messages: it can drop live leases";
        findings.push(Finding::lowering("discard", text).remedy("set discard to new"));
    }
    findings
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing {
    use super::super::link::answer;
    use super::{Made, NatsOptions, Result, Told, Version, examine};
    use crate::store::{Capabilities, StoreInfo};

    /// Whether a server of this version is trusted to end single messages in time.
    #[must_use]
    pub fn nats_expires(version: &str) -> bool {
        Version::parse(version).expires_reliably()
    }

    /// What a bucket is worth of which a server of this version tells so; or why it does not fit.
    /// `None` when nothing is told that can be read.
    #[must_use]
    pub fn nats_bucket(
        payload: &[u8],
        options: &NatsOptions,
        version: &str,
    ) -> Option<Result<StoreInfo>> {
        let Told { config, created } = answer(payload).ok()?.ok()?;
        let made = Made { created, connection: 1 };
        let bucket = examine(&config, options, Version::parse(version), made);
        Some(bucket.map(|bucket| {
            let capabilities = Capabilities { durable: bucket.is_durable, ..Default::default() };
            StoreInfo::new("nats", bucket.timing, capabilities, bucket.findings)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn options(query: &str) -> NatsOptions {
        NatsOptions::new(&format!("nats://t@h?bucket=b&{query}")).unwrap()
    }

    const NEW: Version = Version(2, 15, 1);
    const OLD: Version = Version(2, 9, 10);

    fn examined(config: &Config, options: &NatsOptions, version: Version) -> Result<Bucket> {
        let made = Made { created: "today".into(), connection: 1 };
        examine(config, options, version, made)
    }

    fn wanted(options: &NatsOptions, version: Version) -> Config {
        super::wanted(options, version, SystemTime::UNIX_EPOCH + Duration::from_secs(7))
    }

    fn refusal(config: &Config, query: &str) -> String {
        let error = examined(config, &options(query), NEW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        error.to_string()
    }

    #[test]
    fn only_versions_that_expire_in_time_are_trusted_with_it() {
        for old in ["2.9.10", "2.10.29", "2.11.0", "2.11.9", "2.12.0", "2.12.0-RC.1", "", "1.9"] {
            assert!(!Version::parse(old).expires_reliably(), "{old}");
        }
        for new in ["2.11.10", "2.11.11", "2.12.1", "2.13.0", "2.15.1", "3.0.0", "2.15.0-dev"] {
            assert!(Version::parse(new).expires_reliably(), "{new}");
        }
    }

    #[test]
    fn a_bucket_that_tenure_makes_fits() {
        for query in ["", "timing=store", "timing=observer", "replicas=3&storage=memory"] {
            let options = options(query);
            let bucket = examined(&wanted(&options, NEW), &options, NEW).unwrap();
            let asked = options.timing.unwrap_or(Timing::Store);
            assert_eq!((bucket.timing, bucket.takes_ttl), (asked, asked == Timing::Store));
        }
        let old = options("");
        let bucket = examined(&wanted(&old, OLD), &old, OLD).unwrap();
        assert_eq!(bucket.timing, Timing::Observer);
        assert!(examined(&wanted(&old, OLD), &options("timing=store"), OLD).is_err());
        let first = [NEW, OLD].map(|version| wanted(&old, version).first_sequence);
        assert_eq!(first, [Some(7_000_000), None]);
    }

    #[test]
    fn what_would_break_locks_is_refused_with_both_values() {
        let fine = wanted(&options(""), NEW);
        let ttl = Config { max_age: Duration::from_secs(30), ..fine.clone() };
        assert!(refusal(&ttl, "").contains("30s") && refusal(&ttl, "").contains("none"));
        let history = Config { max_messages_per_subject: 5, ..fine.clone() };
        assert!(refusal(&history, "").contains("history 5"));
        let text = refusal(&fine, "replicas=3");
        assert!(text.contains("1 replicas") && text.contains("replicas=3"), "{text}");
        let text = refusal(&fine, "storage=memory");
        assert!(text.contains("storage file") && text.contains("storage=memory"), "{text}");
        let text = refusal(&fine, "timing=observer");
        assert!(text.contains("timing=store") && text.contains("timing=observer"), "{text}");
        let plain = Config { allow_message_ttl: false, ..fine.clone() };
        assert!(refusal(&plain, "timing=store").contains("allow_msg_ttl is false"));
        for broken in [
            Config { subjects: vec!["orders.>".into()], ..fine.clone() },
            Config { sources: Some(vec![Default::default()]), ..fine.clone() },
            Config { no_ack: true, ..fine.clone() },
            Config { retention: RetentionPolicy::WorkQueue, ..fine },
        ] {
            refusal(&broken, "");
        }
    }

    #[test]
    fn the_class_follows_from_what_is_known_of_the_disk() {
        let lowered_on = |version, query: &str, change: fn(&mut Config)| {
            let options = options(query);
            let mut config = wanted(&options, version);
            change(&mut config);
            let bucket = examined(&config, &options, version).unwrap();
            let lowering = |finding: &Finding| finding.severity == Severity::Lowering;
            bucket.findings.into_iter().find(lowering).map(|finding| finding.topic.to_string())
        };
        let lowered = |query: &str, change| lowered_on(NEW, query, change);
        assert_eq!(lowered_on(OLD, "sync=always", |_| {}), Some("sync_interval".into()));
        assert_eq!(lowered_on(V2_10, "sync=always", |_| {}), None);
        assert_eq!(lowered("", |_| {}), Some("sync_interval".into()));
        assert_eq!(lowered("sync=always", |_| {}), None);
        assert_eq!(lowered("sync=always&storage=memory", |_| {}), Some("storage".into()));
        let evicting = lowered("sync=always", |config| {
            config.discard = DiscardPolicy::Old;
            config.max_bytes = 1_000_000;
        });
        assert_eq!(evicting, Some("discard".into()));
    }
}

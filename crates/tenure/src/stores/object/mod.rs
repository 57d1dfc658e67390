//! `s3://`, `gs://`, `az://`: locks on nothing but object storage. `folder:` to try that out.
//!
//! One object per key, and compare-and-swap: an object is created only where there is none, and
//! replaced only over the version that was read. No clock is compared with another: a lease ends
//! when someone who waits has seen it unchanged for its whole ttl on its own clock
//! ([`Timing::Observer`](crate::store::Timing::Observer)).
//!
//! # Guarantees
//! Class **F**, wherever the store keeps to its conditions, and that is tried out at every opening:
//! a create over an object that is there, an update over an old version, and 12 creates and updates
//! of one object at the same time, three times over. What lets a wrong one through is refused with
//! `Unsupported`, and the text says what it did. The probe takes 20 round trips and 89 requests, 77
//! of them writes: about a second, and $0.0004. `probe=quick` leaves out the part with several at
//! once: 8 requests, which cannot find a server that checks first and writes then.
//!
//! Class **E** where that was not shown: with `probe=quick`, or when the store turned most of the
//! requests away. Google's own service is tried one by one and taken at its word for the rest,
//! because it allows one write per second and object; another `endpoint` is not. `folder:` is of
//! class E on a file system in memory.
//!
//! Fences are counted in the object, which therefore is never deleted: a released key leaves an
//! object of some 60 bytes behind. **Delete no object under the prefix, by hand or by a lifecycle
//! rule**: the count would begin anew. Copies of a bucket by replication are copies: lock in one
//! bucket only.
//!
//! An object that cannot be read as a lock is never taken for a free key: each call says `Damaged`.
//! [`force_release`](crate::Locks::force_release) replaces it by a free entry, whose fence is the
//! number of microseconds since 1970 by this machine's time of day: that is beyond all that were
//! counted before. By hand it is `{"v":1,"nonce":"by hand","fence":F}`, where F is no less than any
//! fence that was granted.
//!
//! # What it needs
//! - Amazon S3: any general purpose bucket. Directory buckets (S3 Express) are refused: they do not
//!   list in order.
//! - Google Cloud Storage, Azure Blob Storage: any bucket or container.
//! - What speaks S3 and passes the probe. SeaweedFS 4.47 does; Garage 2.5, s3rver and
//!   `rclone serve s3` ignore conditions, s3s-fs lets several through at once: all are refused.
//! - `folder:PATH`: a folder on a local disk, for processes of one machine. Network file systems
//!   are refused.
//!
//! The bucket must exist. With versioning switched on, every renewal leaves an old version behind:
//! let a lifecycle rule delete *noncurrent* versions.
//!
//! # URL
//! `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `folder:PATH`. The prefix
//! may be left out; it is best given to locks alone. The same can be set in code with
//! [`ObjectOptions`].
//!
//! | option | for | default | |
//! |---|---|---|---|
//! | `endpoint` | all | the cloud's own | where the service is; for Azurite with the account: `http://127.0.0.1:10000/devstoreaccount1` |
//! | `allow_http` | all | `false` | the endpoint may be without TLS |
//! | `ca` | all | the system's | a PEM file with more certificates to trust |
//! | `anonymous` | all | `false` | requests are not signed |
//! | `probe` | all | `full`; `quick` at Google's own endpoint | how the store is tried out |
//! | `write_interval_ms` | all | 0, Google 1000 | how far apart writes of one object are kept |
//! | `region` | s3 | `us-east-1` | of the bucket |
//! | `path_style` | s3 | `true` | the bucket is in the path and not in the host |
//! | `access_key_id`, `secret_access_key`, `session_token` | s3 | environment | |
//! | `account`, `access_key` | az | environment | |
//! | `service_account` | gs | environment | a file with the key of a service account |
//!
//! Credentials come from where the cloud's own tools take them, in this order: the options;
//! `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`,
//! `AWS_ENDPOINT_URL`, a web identity, the container's or the instance's role;
//! `GOOGLE_APPLICATION_CREDENTIALS`, `gcloud`'s login, the metadata server;
//! `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_CLIENT_ID` and so on, a
//! managed identity. Profiles of `~/.aws` are not read; this puts one into the environment:
//! `eval "$(aws configure export-credentials --format env)"`. `HTTPS_PROXY` and `NO_PROXY` are
//! honoured.
//!
//! # Permissions
//! ```json
//! {"Version": "2012-10-17", "Statement": [
//!   {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
//!    "Resource": "arn:aws:s3:::BUCKET/PREFIX/*"},
//!   {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::BUCKET"}]}
//! ```
//! `DeleteObject` is for the objects of the probe (`PREFIX/.tenure-probe-…`) alone and may be left
//! out; they then stay. Without `ListBucket`, S3 denies the look at an object that is not there.
//! Google: `roles/storage.objectUser` on the bucket. Azure: `Storage Blob Data Contributor` on the
//! container. Whoever may read the objects sees the owners in them, and could release with them.
//!
//! # What a lock costs
//! A look and a write for the first grant of a key in a process, then one write each to acquire, to
//! renew and to release. Kept alive at the default ttl of 30 s, a lock takes 6 writes a minute: at
//! $5 per million, $1.30 a month. A ttl of 10 s or more is recommended; with Google, which takes
//! one write per second and object, it must be 3 s at the least, and a release may wait a second
//! for its turn.
//!
//! Waiters of the same process are woken, others are not (`Capabilities::wakes` is false): a
//! process in which someone waits reads the object every 0.4 to 0.6 s. That is two reads a second
//! for each key, which at $0.40 per million makes $2 a month for one that always waits. It finds a
//! release within 0.6 s, and takes over from a dead holder within its ttl and a second.
//! [`LocksBuilder::poll`](crate::LocksBuilder::poll) makes it cheaper and slower.
//!
//! A process that has never seen a lock cannot know how old it is: a single try does not take over
//! from a dead holder, a second one of the same process after the ttl does, and so does any waiter.
//!
//! # What a key looks like
//! `PREFIX/t1-2Fdefault-2Forder=3A42` for the key `order:42`: letters, digits and all that is not
//! ASCII as they are, the rest escaped so that names sort as keys do. An object's name can have
//! 1024 bytes, with prefix and escapes; a longer key is refused. The body is JSON: the fence, and
//! who holds the key.

mod bucket;
mod connect;
mod error;
mod folder;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod name;
mod objects;
mod options;
mod pace;
mod probe;
mod wire;

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::Result;
use crate::store::Store;

pub use options::ObjectOptions;
pub use probe::Probe;

/// What URLs of this store begin with.
pub const SCHEMES: &[&str] = &["s3", "gs", "az", "folder"];

/// Opens the store that `url` names.
///
/// # Errors
/// What is wrong with the URL, the credentials, the bucket or the way there; `Unsupported` when the
/// store does not keep to conditions.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    ObjectOptions::new(url)?.open(clock).await
}

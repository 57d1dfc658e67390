//! The audit log: who did what to which lock, one JSON object a line, only ever appended.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use sha2::{Digest, Sha256};
use tenure::Fence;
use tenure_api::{Code, rfc3339};

use crate::access::Caller;
use crate::api::{Place, STORED_KEY_MAX};
use crate::config::{AuditConfig, AuditKeys};
use crate::failure::Failure;

/// How much is written of a text that a client has sent, in bytes.
const TEXT_MAX: usize = STORED_KEY_MAX;

/// One thing that was done, or refused. Never a lock id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deed<'a> {
    pub(crate) call: &'static str,
    pub(crate) place: &'a Place,
    pub(crate) fence: Option<Fence>,
    pub(crate) reason: Option<&'a str>,
    /// `None` when it was done.
    pub(crate) code: Option<Code>,
}

#[derive(Debug)]
pub(crate) struct Audit {
    file: Mutex<File>,
    keys: AuditKeys,
    reads: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    who: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    call: &'a str,
    store: Cow<'a, str>,
    namespace: Cow<'a, str>,
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'a, str>>,
}

impl Audit {
    /// Opens the file, or makes one that only its owner can read.
    pub(crate) fn open(config: &AuditConfig) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&config.file);
        let file = file.map_err(|error| {
            let path = config.file.display();
            Failure::invalid(format!("audit.file {path} cannot be written: {error}"))
        })?;
        Ok(Self { file: Mutex::new(file), keys: config.keys, reads: config.reads })
    }

    /// Whether a call is written down.
    pub(crate) fn wants(&self, call: &str) -> bool {
        self.reads || !matches!(call, "get" | "list" | "events" | "stores")
    }

    /// Writes one line, in one write.
    pub(crate) fn write(
        &self,
        at: SystemTime,
        caller: &Caller,
        deed: &Deed<'_>,
    ) -> std::io::Result<()> {
        let key = match self.keys {
            AuditKeys::Plain => cut(&deed.place.key),
            AuditKeys::Digest => digest(&deed.place.key).into(),
        };
        let line = Line {
            at: rfc3339::milliseconds(at),
            who: &caller.identity.name,
            peer: caller.peer.map(|peer| peer.to_string()),
            call: deed.call,
            store: cut(&deed.place.store),
            namespace: cut(&deed.place.namespace),
            key,
            fence: deed.fence.map(Fence::get),
            result: deed.code.map_or("done", Code::name),
            reason: deed.reason.map(cut),
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text)
    }
}

/// What is too long to be right was refused, and is not worth its place in the log.
fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_MAX {
        return Cow::Borrowed(text);
    }
    let end = (0..=TEXT_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Enough of a digest to tell keys apart.
fn digest(key: &str) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Identity;

    #[test]
    fn a_line_tells_who_did_what_and_how_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.jsonl");
        let config = AuditConfig { file: file.clone(), keys: AuditKeys::Digest, reads: false };
        let audit = Audit::open(&config).unwrap();
        let place = Place { store: "s".into(), namespace: "n".into(), key: "k".into() };
        let caller = Caller { identity: Identity::unrestricted("ops"), peer: None };
        let deed = Deed {
            call: "force_unlock",
            place: &place,
            fence: Some(Fence::new(7)),
            reason: Some("host is gone"),
            code: None,
        };
        audit.write(SystemTime::UNIX_EPOCH, &caller, &deed).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        let expected = serde_json::json!({
            "at": "1970-01-01T00:00:00.000Z", "who": "ops", "call": "force_unlock", "store": "s",
            "namespace": "n", "key": "8254c329a92850f6", "fence": 7, "result": "done",
            "reason": "host is gone",
        });
        assert_eq!(line, expected);
        assert!(audit.wants("lock") && !audit.wants("get"));
    }

    #[test]
    fn a_text_of_any_length_takes_little_of_the_log() {
        assert_eq!(cut(&"k".repeat(TEXT_MAX)), "k".repeat(TEXT_MAX));
        let cut = cut(&"ü".repeat(TEXT_MAX)).into_owned();
        assert!(cut.len() < TEXT_MAX + 4 && cut.ends_with("ü…"), "{cut}");
    }
}

//! What requests and answers look like in JSON.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use tenure::{Event, EventKind, Severity};
use tenure_api::duration::parse;
use tenure_api::rfc3339;

use crate::api::{Granted, HoldEvent, LockState, PageOf, StoreState};
use crate::failure::Failure;

/// Asking for a lock.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LockBody {
    #[serde(deserialize_with = "duration")]
    pub(super) ttl: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) wait: Option<Duration>,
    pub(super) immediate: bool,
    pub(super) lock_id: Option<String>,
    pub(super) note: String,
    pub(super) renewal: RenewalBody,
    #[serde(deserialize_with = "duration")]
    pub(super) max_hold: Option<Duration>,
}

/// Who keeps a lock alive.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RenewalBody {
    #[default]
    Server,
    Client,
}

/// Prolonging a lock.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RenewBody {
    pub(super) lock_id: Option<String>,
    #[serde(deserialize_with = "duration")]
    pub(super) ttl: Option<Duration>,
}

/// Giving a lock back, or taking it away.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UnlockBody {
    pub(super) lock_id: Option<String>,
    pub(super) force: bool,
    pub(super) reason: String,
}

/// A duration as people write it.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| parse(&text).map_err(serde::de::Error::custom)).transpose()
}

/// A lock that was granted.
#[derive(Debug, Serialize)]
pub(super) struct GrantedBody {
    key: String,
    lock_id: String,
    fence: u64,
    ttl_ms: u64,
}

impl GrantedBody {
    pub(super) fn new(key: &str, granted: Granted) -> Self {
        let Granted { lock_id, fence, ttl } = granted;
        Self { key: key.to_owned(), lock_id, fence: fence.get(), ttl_ms: ms(ttl) }
    }
}

/// A lock that was prolonged.
#[derive(Debug, Serialize)]
pub(super) struct RenewedBody {
    pub(super) key: String,
    pub(super) fence: u64,
    pub(super) ttl_ms: u64,
}

/// A lock as anyone may see it who may read it.
#[derive(Debug, Serialize)]
pub(super) struct StateBody {
    key: String,
    fence: u64,
    holder: String,
    ttl_ms: u64,
    remaining_ms: u64,
    granted_at: String,
    waiters: usize,
}

impl From<LockState> for StateBody {
    fn from(LockState { status, waiters }: LockState) -> Self {
        Self {
            key: status.key.to_string(),
            fence: status.fence.get(),
            holder: status.holder.to_string(),
            ttl_ms: ms(status.ttl),
            remaining_ms: ms(status.remaining),
            granted_at: rfc3339::milliseconds(status.granted_at),
            waiters,
        }
    }
}

/// Who lost a lock to force.
#[derive(Debug, Serialize)]
pub(super) struct EvictedBody {
    pub(super) evicted: Option<StateBody>,
}

/// One page of locks.
#[derive(Debug, Serialize)]
pub(super) struct PageBody {
    locks: Vec<StateBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl From<PageOf> for PageBody {
    fn from(PageOf { items, next }: PageOf) -> Self {
        Self { locks: items.into_iter().map(StateBody::from).collect(), next }
    }
}

/// The stores.
#[derive(Debug, Serialize)]
pub(super) struct StoresBody {
    pub(super) stores: Vec<StoreBody>,
}

/// A store.
#[derive(Debug, Serialize)]
pub(super) struct StoreBody {
    name: String,
    kind: &'static str,
    class: &'static str,
    is_default: bool,
    findings: Vec<FindingBody>,
}

#[derive(Debug, Serialize)]
struct FindingBody {
    severity: &'static str,
    topic: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl From<StoreState> for StoreBody {
    fn from(state: StoreState) -> Self {
        let finding = |finding: tenure::Finding| FindingBody {
            severity: match finding.severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Lowering => "lowering",
                Severity::Refusal => "refusal",
            },
            topic: finding.topic.into_owned(),
            text: finding.text,
            remedy: finding.remedy,
        };
        Self {
            name: state.name,
            kind: state.kind,
            class: state.class.letter(),
            is_default: state.is_default,
            findings: state.findings.into_iter().map(finding).collect(),
        }
    }
}

/// One line of a stream that holds a lock.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum HoldLine {
    Waiting {
        ahead: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        held_by: Option<StateBody>,
    },
    Acquired(GrantedBody),
    Ping,
    Error {
        error: ErrorText,
    },
}

impl HoldLine {
    pub(super) fn new(key: &str, event: Result<HoldEvent, Failure>) -> Self {
        match event {
            Ok(HoldEvent::Waiting(waiting)) => {
                let state = |status| StateBody::from(LockState { status, waiters: 0 });
                Self::Waiting { ahead: waiting.ahead, held_by: waiting.held_by.map(state) }
            }
            Ok(HoldEvent::Acquired(granted)) => Self::Acquired(GrantedBody::new(key, granted)),
            Ok(HoldEvent::Ping) => Self::Ping,
            Err(failure) => Self::Error { error: failure.into() },
        }
    }
}

/// What went wrong.
#[derive(Debug, Serialize)]
pub(super) struct ErrorBody {
    pub(super) error: ErrorText,
}

/// What went wrong, in a code and in words.
#[derive(Debug, Serialize)]
pub(super) struct ErrorText {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) retry: String,
}

impl From<Failure> for ErrorText {
    fn from(failure: Failure) -> Self {
        let fault = failure.code.fault();
        let (code, retry) = (fault.name.to_owned(), fault.retry.to_owned());
        Self { code, message: failure.message, retry }
    }
}

/// Something that happened.
#[derive(Debug, Default, Serialize)]
pub(super) struct EventBody {
    #[serde(skip)]
    pub(super) kind: &'static str,
    key: String,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
}

impl From<Event> for EventBody {
    fn from(event: Event) -> Self {
        let mut body = Self {
            key: event.key.to_string(),
            at: rfc3339::milliseconds(event.at),
            ..Self::default()
        };
        let (kind, fence, took) = match event.kind {
            EventKind::Granted { fence, waited } => ("granted", Some(fence), waited),
            EventKind::Contended { fence, holder, waited } => {
                body.holder = Some(holder.to_string());
                ("contended", Some(fence), waited)
            }
            EventKind::TimedOut { waited } => ("timed_out", None, Some(waited)),
            EventKind::Renewed { fence, took } => ("renewed", Some(fence), Some(took)),
            EventKind::Lost { fence, reason, held } => {
                body.reason = Some(reason.to_string());
                ("lost", Some(fence), held)
            }
            EventKind::Released { fence, held } => ("released", Some(fence), held),
            EventKind::Forced { fence, reason } => {
                body.reason = Some(reason);
                ("forced", Some(fence), None)
            }
            EventKind::Missed { count } => {
                body.missed = Some(count);
                ("missed", None, None)
            }
            _ => ("other", None, None),
        };
        Self { kind, fence: fence.map(tenure::Fence::get), took_ms: took.map(ms), ..body }
    }
}

/// Whole milliseconds.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

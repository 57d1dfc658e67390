//! Idempotency: the same call again gets the same answer, and takes no lock for it.
//!
//! What was answered is kept in this process, up to a bound; another process knows nothing of it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tenure::clock::{Clock, Moment};
use tenure_api::{ForrstCode, rfc3339};

use crate::amount::{Amount, Unit};
use crate::fault::Fault;
use crate::pointer::Pointer;
use crate::response::Json;

/// The most characters of a key.
const KEY_MAX: usize = 255;

/// How long an answer is kept when nothing is said.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an answer is kept at the most.
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How much is kept at the most.
const ENTRIES_MAX: usize = 10_000;
const BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct IdempotencyOptions {
    pub(crate) key: String,
    ttl: Duration,
}

/// Which call is meant: of whom, of what, with which key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) caller: String,
    pub(crate) function: String,
    pub(crate) version: Option<String>,
    pub(crate) key: String,
}

#[derive(Debug)]
pub(crate) struct Answers {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<Slot, Entry>,
    /// The order in which answers came, to forget the oldest first.
    order: VecDeque<(Slot, Moment)>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    arguments: [u8; 32],
    request: String,
    answer: Option<Answer>,
}

#[derive(Clone, Debug)]
struct Answer {
    /// An error only where the function came to its end all the same.
    outcome: Result<Json, Fault>,
    at: Moment,
    until: Moment,
    cached_at: SystemTime,
    expires_at: SystemTime,
}

/// What a call with a key comes upon.
#[derive(Debug)]
pub(crate) enum Found {
    /// What to answer without a call: what was answered before, or that it was another call.
    Answered(Result<Json, Fault>, IdempotencyData),
    /// Nothing: this call is the first.
    First(Ticket),
}

/// The first call with a key. Dropped without an answer, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Ticket {
    all: Arc<Answers>,
    slot: Option<Slot>,
    request: String,
    ttl: Duration,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct IdempotencyData {
    key: String,
    status: &'static str,
    original_request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

#[derive(Serialize)]
struct Processing<'a> {
    key: &'a str,
    retry_after: Amount,
}

#[derive(Serialize)]
struct Conflict<'a> {
    key: &'a str,
    original_arguments_hash: String,
}

impl IdempotencyOptions {
    /// Reads the options, which stand there.
    pub(crate) fn read(options: &Map<String, Value>, at: Pointer<'_>) -> Result<Self, Fault> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
        let key = match options.get("key").and_then(Value::as_str) {
            Some(key) if (1..=KEY_MAX).contains(&key.len()) && key.chars().all(is_allowed) => key,
            _ => {
                let text = format!("key must have 1 to {KEY_MAX} of A-Z a-z 0-9 - _ : .");
                return Err(Fault::argument(at.member("key"), text));
            }
        };
        let ttl = match options.get("ttl") {
            None => TTL,
            Some(ttl) => {
                Amount::read_up_to(TTL_MAX, ttl.as_object(), "ttl", at.member("ttl"))?.duration()
            }
        };
        Ok(Self { key: key.to_owned(), ttl })
    }
}

/// Arguments as a number that other arguments do not have.
pub(crate) fn digest(arguments: &Map<String, Value>) -> [u8; 32] {
    // Members are in order of their names: the map is sorted.
    Sha256::digest(Value::Object(arguments.clone()).to_string()).into()
}

impl Answers {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Mutex::default() }
    }

    /// A call with a key begins.
    pub(crate) fn begin(
        self: &Arc<Self>,
        slot: Slot,
        options: &IdempotencyOptions,
        arguments: [u8; 32],
        request: &str,
    ) -> Result<Found, Fault> {
        let now = self.clock.now();
        let mut kept = self.kept();
        kept.forget_before(now);
        kept.forget(&slot, |answer| answer.until <= now);
        let key = &options.key;
        match kept.entries.get(&slot) {
            Some(entry) if entry.arguments != arguments => {
                Ok(Found::Answered(Err(entry.conflict(key)), entry.data(key, "conflict")))
            }
            Some(Entry { answer: None, .. }) => {
                let retry_after = Amount { value: 1, unit: Unit::Second };
                let details = Processing { key, retry_after };
                let text = "Previous request with this key is still processing";
                Err(Fault::new(ForrstCode::IdempotencyProcessing, text).with(details))
            }
            Some(entry @ Entry { answer: Some(answer), .. }) => {
                let data = IdempotencyData {
                    cached_at: Some(rfc3339::seconds(answer.cached_at)),
                    expires_at: Some(rfc3339::seconds(answer.expires_at)),
                    ..entry.data(key, "cached")
                };
                Ok(Found::Answered(answer.outcome.clone(), data))
            }
            None => {
                let request = request.to_owned();
                let entry = Entry { arguments, request: request.clone(), answer: None };
                kept.entries.insert(slot.clone(), entry);
                let (all, ttl) = (Arc::clone(self), options.ttl);
                Ok(Found::First(Ticket { all, slot: Some(slot), request, ttl }))
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets what is over, and the oldest while there is too much.
    fn forget_before(&mut self, now: Moment) {
        while let Some((slot, at)) = self.order.front() {
            let answer = self.entries.get(slot).and_then(|entry| entry.answer.as_ref());
            let stands = answer.is_some_and(|answer| answer.at == *at && answer.until > now);
            if stands && self.order.len() <= ENTRIES_MAX && self.bytes <= BYTES_MAX {
                break;
            }
            if let Some((slot, at)) = self.order.pop_front() {
                self.forget(&slot, |answer| answer.at == at);
            }
        }
    }

    /// Forgets an answer if it is the one that is meant.
    fn forget(&mut self, slot: &Slot, is_meant: impl Fn(&Answer) -> bool) {
        let answer = self.entries.get(slot).and_then(|entry| entry.answer.as_ref());
        if let Some(answer) = answer.filter(|answer| is_meant(answer)) {
            self.bytes -= answer.bytes();
            self.entries.remove(slot);
        }
    }
}

impl Entry {
    /// What is told about it.
    fn data(&self, key: &str, status: &'static str) -> IdempotencyData {
        let (key, original_request_id) = (key.to_owned(), self.request.clone());
        IdempotencyData { key, status, original_request_id, cached_at: None, expires_at: None }
    }

    /// The error for other arguments than its own.
    fn conflict(&self, key: &str) -> Fault {
        let hex = self.arguments.iter().map(|byte| format!("{byte:02x}"));
        let original_arguments_hash = format!("sha256:{}", hex.collect::<String>());
        let text = "Idempotency key already used with different arguments";
        Fault::new(ForrstCode::IdempotencyConflict, text)
            .with(Conflict { key, original_arguments_hash })
    }
}

impl Answer {
    fn bytes(&self) -> usize {
        self.outcome.as_ref().map_or(0, |result| result.get().len())
    }
}

impl Ticket {
    /// Keeps the answer for those who ask again.
    pub(crate) fn keep(mut self, outcome: &Result<Json, Fault>) -> Option<IdempotencyData> {
        let slot = self.slot.take()?;
        let (now, wall) = (self.all.clock.now(), self.all.clock.wall());
        let expires_at = wall + self.ttl;
        let data = IdempotencyData {
            key: slot.key.clone(),
            status: "processed",
            original_request_id: self.request.clone(),
            cached_at: None,
            expires_at: Some(rfc3339::seconds(expires_at)),
        };
        let mut kept = self.all.kept();
        let entry = kept.entries.get_mut(&slot)?;
        let until = now + self.ttl;
        let outcome = outcome.clone();
        let answer = Answer { outcome, at: now, until, cached_at: wall, expires_at };
        let bytes = answer.bytes();
        entry.answer = Some(answer);
        kept.bytes += bytes;
        kept.order.push_back((slot, now));
        kept.forget_before(now);
        Some(data)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.all.kept().entries.remove(&slot);
        }
    }
}

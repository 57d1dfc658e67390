//! The atomic lock: what is asked for, and what is told about it.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value};
use tenure::{Fence, Owner};
use tenure_api::{ForrstCode, rfc3339};

use crate::amount::Amount;
use crate::desk::Refusal;
use crate::fault::Fault;
use crate::pointer::Pointer;

/// The most characters of a key.
const KEY_MAX: usize = 200;

/// What locks are asked to do.
#[derive(Clone, Debug)]
pub(crate) struct LockOptions {
    pub(crate) key: String,
    pub(crate) ttl: Amount,
    pub(crate) scope: Scope,
    pub(crate) block: Option<Amount>,
    pub(crate) owner: Option<Owner>,
    pub(crate) auto_release: bool,
    at: Pointer<'static>,
}

/// Whether a key is a function's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    #[default]
    Function,
    Global,
}

impl LockOptions {
    /// Reads the options, which stand there.
    pub(crate) fn read(options: &Map<String, Value>, at: Pointer<'static>) -> Result<Self, Fault> {
        let wrong = |member: &str, text: &str| Err(Fault::argument(at.member(member), text));
        let scope = match options.get("scope") {
            None => Scope::Function,
            Some(Value::String(name)) if name == "function" => Scope::Function,
            Some(Value::String(name)) if name == "global" => Scope::Global,
            Some(_) => return wrong("scope", "Lock scope must be function or global"),
        };
        let ttl = match options.get("ttl") {
            None => return wrong("ttl", "Lock TTL is required"),
            Some(ttl) => Amount::read(ttl, "Lock TTL", at.member("ttl"))?,
        };
        let block = options.get("block");
        let block =
            block.map(|block| Amount::read(block, "Lock block", at.member("block"))).transpose()?;
        let owner =
            match options.get("owner") {
                None => None,
                Some(Value::String(text)) => Some(Owner::parse(text).map_err(|error| {
                    Fault::argument(at.member("owner"), format!("Lock {error}"))
                })?),
                Some(_) => return wrong("owner", "Lock owner must be a string"),
            };
        let auto_release = match options.get("auto_release") {
            None => true,
            Some(Value::Bool(on)) => *on,
            Some(_) => return wrong("auto_release", "auto_release must be true or false"),
        };
        let key = key(options.get("key"), at.member("key"))?;
        Ok(Self { key, ttl, scope, block, owner, auto_release, at })
    }

    /// The key in the store.
    pub(crate) fn full_key(&self, prefix: &str, function: &str) -> String {
        let key = &self.key;
        match self.scope {
            Scope::Function => format!("{prefix}{function}:{key}"),
            Scope::Global => format!("{prefix}{key}"),
        }
    }

    pub(crate) fn wait(&self) -> Duration {
        self.block.as_ref().map_or(Duration::ZERO, Amount::duration)
    }

    /// The error for a lock that was not granted.
    pub(crate) fn refused(&self, refusal: Refusal, full_key: &str) -> Fault {
        let Self { key, scope, .. } = self;
        let details = |waited| Details { key, scope: *scope, full_key, waited, fence: None };
        match (refusal, &self.block) {
            (Refusal::Held | Refusal::WrongOwner | Refusal::TimedOut, None) => {
                Fault::new(ForrstCode::LockAcquisitionFailed, "Unable to acquire lock")
                    .with(details(None))
            }
            (Refusal::Held | Refusal::WrongOwner | Refusal::TimedOut, Some(block)) => {
                let Amount { value, unit } = block;
                let text = format!("Lock acquisition timed out after {value} {}s", unit.name());
                Fault::new(ForrstCode::LockTimeout, text).with(details(Some(block)))
            }
            (Refusal::Invalid(text), _) => self.invalid(&text),
            (refusal, _) => failed(refusal),
        }
    }

    /// The error for an option that a limit of the store or the server refuses.
    fn invalid(&self, text: &str) -> Fault {
        let named = [("key", "key"), ("ttl", "ttl"), ("owner", "owner"), ("wait", "block")];
        for (word, option) in named {
            if let Some((before, after)) = text.split_once(&format!("{word} must")) {
                let text = format!("{before}{option} must{after}");
                return Fault::argument(self.at.member(option), text);
            }
        }
        Fault::argument(self.at, text)
    }

    /// The error for a lock that was lost under its function.
    pub(crate) fn lost(&self, full_key: &str, fence: Fence) -> Fault {
        let Self { key, scope, .. } = self;
        let (scope, fence) = (*scope, Some(fence.get()));
        let text = "The lock was lost while the function ran; what it has done may not have been \
                    alone";
        let details = Details { key, scope, full_key, waited: None, fence };
        Fault::new(ForrstCode::LockLost, text).with(details)
    }
}

/// The error for a store or a server that gives no lock.
pub(crate) fn failed(refusal: Refusal) -> Fault {
    let (code, text) = match refusal {
        Refusal::Invalid(text) => (ForrstCode::InvalidArguments, text),
        Refusal::Forbidden(text) => (ForrstCode::Forbidden, text),
        Refusal::Limit(text) => (ForrstCode::RateLimited, text),
        Refusal::Unavailable(text) => (ForrstCode::Unavailable, text),
        Refusal::Failed(text) => (ForrstCode::DependencyError, text),
        Refusal::NotFound => (ForrstCode::LockNotFound, "Lock does not exist".into()),
        Refusal::Held | Refusal::TimedOut | Refusal::WrongOwner => {
            let text = "Lock is owned by a different process";
            (ForrstCode::LockOwnershipMismatch, text.into())
        }
    };
    Fault::new(code, text)
}

fn key(json: Option<&Value>, at: Pointer<'_>) -> Result<String, Fault> {
    let wrong = |text: String| Err(Fault::argument(at, text));
    let key = match json {
        None => return wrong("Lock key is required".into()),
        Some(Value::String(key)) => key,
        Some(_) => return wrong("Lock key must be a string".into()),
    };
    if key.is_empty() || key.len() > KEY_MAX {
        let length = key.len();
        return wrong(format!(
            "Lock key must have 1 to {KEY_MAX} characters, this one has {length}"
        ));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    if !key.chars().all(is_allowed) {
        return wrong("Lock key may contain only A-Z a-z 0-9 - _ : .".into());
    }
    // The reference keeps who holds a lock under such keys, in the same store.
    if key.contains(":meta:") {
        return wrong("Lock key must not contain :meta:".into());
    }
    Ok(key.clone())
}

#[derive(Serialize)]
struct Details<'a> {
    key: &'a str,
    scope: Scope,
    full_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<&'a Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
}

/// What is told about a lock that was granted.
#[derive(Debug, Serialize)]
pub(crate) struct Acquired<'a> {
    key: &'a str,
    acquired: bool,
    owner: String,
    scope: Scope,
    expires_at: String,
    fence: u64,
}

impl<'a> Acquired<'a> {
    pub(crate) fn new(
        options: &'a LockOptions,
        owner: &Owner,
        fence: Fence,
        expires_at: SystemTime,
    ) -> Self {
        Self {
            key: &options.key,
            acquired: true,
            owner: owner.expose(),
            scope: options.scope,
            expires_at: rfc3339::seconds(expires_at),
            fence: fence.get(),
        }
    }
}

/// What is told about a lock that was not granted.
#[derive(Debug, Serialize)]
pub(crate) struct NotAcquired<'a> {
    pub(crate) key: &'a str,
    pub(crate) acquired: bool,
}

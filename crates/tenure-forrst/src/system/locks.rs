//! `release`, `force-release` and `status` of locks.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tenure::Owner;
use tenure::clock::Clock;
use tenure_api::{ForrstCode, rfc3339};

use super::VERSION;
use crate::call::Call;
use crate::desk::{LockDesk, Refusal};
use crate::extension::atomic_lock::failed;
use crate::fault::Fault;
use crate::function::Function;
use crate::locked::Locking;
use crate::released::ReleasedLocks;

const RELEASE: &str = "urn:cline:forrst:ext:atomic-lock:fn:release";
const FORCE_RELEASE: &str = "urn:cline:forrst:ext:atomic-lock:fn:force-release";
const STATUS: &str = "urn:cline:forrst:ext:atomic-lock:fn:status";

/// The locks that the functions are about: those with the prefix, and no others of the store.
#[derive(Clone, Debug)]
struct Locks {
    desk: Arc<dyn LockDesk>,
    clock: Arc<dyn Clock>,
    released: Arc<ReleasedLocks>,
    prefix: String,
}

#[derive(Deserialize)]
struct ReleaseArguments {
    key: String,
    owner: String,
}

#[derive(Deserialize)]
struct ForceArguments {
    key: String,
}

#[derive(Deserialize)]
struct StatusArguments {
    key: String,
    owner: Option<String>,
}

#[derive(Serialize)]
struct Released {
    released: bool,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    forced: Option<bool>,
}

#[derive(Serialize)]
struct Status {
    key: String,
    locked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acquired_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
}

#[derive(Serialize)]
struct About<'a> {
    key: &'a str,
}

impl Locks {
    fn of(locking: &Locking) -> Self {
        Self {
            desk: Arc::clone(&locking.desk),
            clock: Arc::clone(&locking.clock),
            released: Arc::clone(&locking.released),
            prefix: locking.prefix.clone(),
        }
    }

    async fn release(&self, call: &Call, asked: ReleaseArguments) -> Result<Released, Fault> {
        let ReleaseArguments { key, owner } = asked;
        let owner = owner_at("/call/arguments/owner", &owner)?;
        let outcome = match self.is_ours(&key)? {
            true => self.desk.release(call.caller(), &key, &owner).await,
            false => Err(Refusal::NotFound),
        };
        match outcome {
            Ok(()) => {
                self.released.remember(&key, &owner);
                Ok(Released { released: true, key, forced: None })
            }
            Err(Refusal::NotFound | Refusal::WrongOwner) if self.released.has(&key, &owner) => {
                let text = "Lock was already released";
                let fault = Fault::new(ForrstCode::LockAlreadyReleased, text);
                Err(fault.with(About { key: &key }))
            }
            Err(refusal) => Err(about(refusal, &key)),
        }
    }

    async fn force_release(&self, call: &Call, asked: ForceArguments) -> Result<Released, Fault> {
        let key = asked.key;
        let outcome = match self.is_ours(&key)? {
            true => self.desk.force_release(call.caller(), &key).await,
            false => Ok(false),
        };
        match outcome {
            Ok(true) => Ok(Released { released: true, key, forced: Some(true) }),
            Ok(false) => Err(about(Refusal::NotFound, &key)),
            Err(refusal) => Err(about(refusal, &key)),
        }
    }

    async fn status(&self, call: &Call, asked: StatusArguments) -> Result<Status, Fault> {
        let StatusArguments { key, owner } = asked;
        let at = "/call/arguments/owner";
        let known = owner.map(|owner| owner_at(at, &owner)).transpose()?;
        let seen = match self.is_ours(&key)? {
            true => {
                let status = self.desk.status(call.caller(), &key, known.as_ref()).await;
                status.map_err(|refusal| about(refusal, &key))?
            }
            false => None,
        };
        let Some(seen) = seen else {
            let (owner, acquired_at, expires_at) = (None, None, None);
            let (ttl_remaining, fence, locked) = (None, None, false);
            return Ok(Status {
                key,
                locked,
                owner,
                acquired_at,
                expires_at,
                ttl_remaining,
                fence,
            });
        };
        Ok(Status {
            key,
            locked: true,
            owner: seen.owner.map(|owner| owner.expose()),
            acquired_at: Some(rfc3339::seconds(seen.granted_at)),
            expires_at: Some(rfc3339::seconds(self.clock.wall() + seen.remaining)),
            ttl_remaining: Some(seen.remaining.as_secs()),
            fence: Some(seen.fence.get()),
        })
    }

    /// Whether a key is of these locks.
    fn is_ours(&self, key: &str) -> Result<bool, Fault> {
        tenure::Key::new(key)
            .map_err(|error| Fault::argument("/call/arguments/key", error.to_string()))?;
        Ok(key.starts_with(&self.prefix))
    }
}

fn owner_at(pointer: &str, owner: &str) -> Result<Owner, Fault> {
    Owner::parse(owner).map_err(|error| Fault::argument(pointer, error.to_string()))
}

fn about(refusal: Refusal, key: &str) -> Fault {
    match refusal {
        Refusal::Invalid(text) => Fault::argument("/call/arguments/key", text),
        refusal => failed(refusal).with(About { key }),
    }
}

fn key_schema() -> serde_json::Value {
    json!({"type": "string", "minLength": 1})
}

pub(crate) fn release(locking: &Locking) -> Function {
    let locks = Locks::of(locking);
    Function::new(RELEASE, VERSION, move |call: Call, asked: ReleaseArguments| {
        let locks = locks.clone();
        async move { locks.release(&call, asked).await }
    })
    .summary("Releases a lock with ownership verification")
    .argument("key", key_schema(), true, "the lock's key, with its prefix")
    .argument("owner", json!({"type": "string", "minLength": 1}), true, "the lock's owner")
    .error("LOCK_NOT_FOUND")
    .error("LOCK_OWNERSHIP_MISMATCH")
    .error("LOCK_ALREADY_RELEASED")
    .system()
}

pub(crate) fn force_release(locking: &Locking) -> Function {
    let locks = Locks::of(locking);
    Function::new(FORCE_RELEASE, VERSION, move |call: Call, asked: ForceArguments| {
        let locks = locks.clone();
        async move { locks.force_release(&call, asked).await }
    })
    .summary("Releases a lock whoever holds it")
    .argument("key", key_schema(), true, "the lock's key, with its prefix")
    .error("LOCK_NOT_FOUND")
    .error("FORBIDDEN")
    .system()
}

pub(crate) fn status(locking: &Locking) -> Function {
    let locks = Locks::of(locking);
    Function::new(STATUS, VERSION, move |call: Call, asked: StatusArguments| {
        let locks = locks.clone();
        async move { locks.status(&call, asked).await }
    })
    .summary("Tells who holds a lock")
    .argument("key", key_schema(), true, "the lock's key, with its prefix")
    .argument("owner", json!({"type": "string"}), false, "the lock's owner, to be shown it again")
    .system()
}

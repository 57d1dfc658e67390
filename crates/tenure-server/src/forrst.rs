//! Forrst's calls, at `POST /forrst`. Their locks are those of the API, with the same rights,
//! limits and audit.

use std::fmt::Display;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use http::Extensions;
use tenure::{Key, Namespace, Owner};
use tenure_api::Code;
use tenure_forrst::{Forrst, Lent, LockDesk, Refusal, Seen, Unknown, Wanted};

use crate::access::{Caller, Verb};
use crate::api::{Api, Order, Place};
use crate::config::ForrstConfig;
use crate::failure::Failure;

/// Why a lock was taken away, in the audit log: the protocol has no word for it.
const REASON: &str = "Forrst force-release";

/// The route of Forrst's calls.
///
/// # Errors
/// `Invalid` for an upstream that is none, and for a place that no lock can be in.
pub(crate) fn routes(api: &Arc<Api>, config: &ForrstConfig) -> Result<Router, Failure> {
    let ForrstConfig { store, namespace, prefix, .. } = config;
    let wrong = |name: &str, why: &dyn Display| Failure::invalid(format!("forrst.{name}: {why}"));
    // Without functions to call, it does no harm that no store is the default.
    if !store.is_empty() || config.upstream.is_some() {
        api.rooms().store(store).map_err(|failure| wrong("store", &failure.message))?;
    }
    Namespace::new(namespace).map_err(|error| wrong("namespace", &error))?;
    Key::new(&format!("{prefix}k")).map_err(|error| wrong("prefix", &error))?;
    let place = Place { store: store.clone(), namespace: namespace.clone(), key: String::new() };
    let desk = Desk { api: Arc::clone(api), place };
    let mut forrst = Forrst::at(Arc::new(desk)).prefix(prefix).unknown_extensions(Unknown::Refuse);
    if let Some(gateway) = config.gateway()? {
        forrst = forrst.upstream(gateway).map_err(|error| wrong("upstream", &error))?;
    }
    Ok(Router::new().route_service("/forrst", forrst.service()))
}

/// The locks of one namespace on one store.
#[derive(Debug)]
struct Desk {
    api: Arc<Api>,
    place: Place,
}

impl Desk {
    fn place(&self, key: &str) -> Place {
        Place { key: key.to_owned(), ..self.place.clone() }
    }

    /// Whether the caller may see who owns a lock.
    fn sees_owners(&self, caller: &Caller) -> bool {
        caller.identity.may(Verb::Admin, &self.place.namespace)
    }
}

/// Every request has come through the door.
fn caller_of(extensions: &Extensions) -> Result<&Caller, Refusal> {
    extensions.get().ok_or_else(|| Refusal::Forbidden("nobody knows who calls".into()))
}

fn refusal(failure: Failure) -> Refusal {
    let Failure { code, message } = failure;
    match code {
        Code::Held => Refusal::Held,
        Code::TimedOut => Refusal::TimedOut,
        Code::NotFound => Refusal::NotFound,
        Code::WrongOwner => Refusal::WrongOwner,
        Code::Invalid | Code::TooLarge => Refusal::Invalid(message),
        Code::Unauthenticated | Code::Forbidden => Refusal::Forbidden(message),
        Code::LimitReached => Refusal::Limit(message),
        Code::Unavailable | Code::Unknown | Code::ShuttingDown | Code::Lost => {
            Refusal::Unavailable(message)
        }
        Code::Unsupported
        | Code::NoSuchPlace
        | Code::NoSuchMethod
        | Code::StoreDenied
        | Code::Mismatch
        | Code::Damaged
        | Code::Internal => Refusal::Failed(message),
    }
}

#[async_trait]
impl LockDesk for Desk {
    async fn acquire(&self, caller: &Extensions, wanted: &Wanted) -> Result<Lent, Refusal> {
        let order = Order {
            place: self.place(&wanted.key),
            ttl: Some(wanted.ttl),
            wait: Some(wanted.wait),
            lock_id: wanted.owner.as_ref().map(Owner::expose),
            note: wanted.note.clone(),
            refuse_reentry: true,
            ..Order::default()
        };
        let outcome = Arc::clone(&self.api).guard(caller_of(caller)?, &order).await;
        let (guard, stays) = outcome.map_err(|failure| match failure.code {
            // Whoever waits is refused at once only where too many wait already.
            Code::Held if !wanted.wait.is_zero() => Refusal::Limit(failure.message),
            _ => refusal(failure),
        })?;
        Ok(Lent { guard, stays: Some(Box::new(stays)) })
    }

    async fn release(&self, caller: &Extensions, key: &str, owner: &Owner) -> Result<(), Refusal> {
        let (caller, place) = (caller_of(caller)?, self.place(key));
        self.api.unlock(caller, &place, &owner.expose()).await.map_err(refusal)
    }

    async fn force_release(&self, caller: &Extensions, key: &str) -> Result<bool, Refusal> {
        let (caller, place) = (caller_of(caller)?, self.place(key));
        let evicted = self.api.force_unlock(caller, &place, REASON).await.map_err(refusal)?;
        Ok(evicted.is_some())
    }

    async fn status(
        &self,
        caller: &Extensions,
        key: &str,
        known: Option<&Owner>,
    ) -> Result<Option<Seen>, Refusal> {
        let caller = caller_of(caller)?;
        let lease = self.api.lease(caller, &self.place(key)).await.map_err(refusal)?;
        Ok(lease.map(|lease| {
            let with_owner = known == Some(&lease.owner) || self.sees_owners(caller);
            Seen::of(lease, with_owner)
        }))
    }

    async fn check(&self) -> Result<(), Refusal> {
        self.api.ready().await.map_err(refusal)
    }

    fn admit(&self, caller: &Extensions) -> Result<(), Refusal> {
        let caller = caller_of(caller)?;
        caller.must(Verb::Acquire, &self.place.namespace).map_err(refusal)
    }

    fn name(&self, caller: &Extensions) -> String {
        caller_of(caller).map(Caller::client).unwrap_or_default()
    }
}

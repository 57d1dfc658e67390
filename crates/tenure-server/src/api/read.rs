//! Looking: who holds what, and what the stores can be trusted with.

use std::pin::pin;

use futures_util::StreamExt;
use tenure::store::Class;
use tenure::{Finding, Key, Status};
use tenure_api::Code;

use super::{Api, Place, settled};
use crate::access::{Caller, Verb};
use crate::failure::Failure;

/// How many locks a page has when nothing is said, and at the most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1000;

/// A lock as anyone may see it who may read it.
#[derive(Clone, Debug)]
pub struct LockState {
    /// Who holds it.
    pub status: Status,
    /// How many wait for it in this server.
    pub waiters: usize,
}

/// One page of locks.
#[derive(Clone, Debug)]
pub struct PageOf {
    /// The locks, in the order of their keys.
    pub items: Vec<LockState>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

/// A store as an administrator sees it.
#[derive(Clone, Debug)]
pub struct StoreState {
    /// Its name in the configuration.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// What it can be trusted with.
    pub class: Class,
    /// Why, and what else was found.
    pub findings: Vec<Finding>,
    /// Whether it is used where none is named.
    pub is_default: bool,
}

impl Api {
    /// Who holds a key.
    ///
    /// # Errors
    /// `NotFound` when nobody does, or what the store says.
    pub async fn get(&self, caller: &Caller, place: &Place) -> Result<LockState, Failure> {
        let outcome = self.try_get(caller, place).await;
        self.record(caller, "get", place, |state| Some(state.status.fence), outcome)
    }

    async fn try_get(&self, caller: &Caller, place: &Place) -> Result<LockState, Failure> {
        let room = self.enter(caller, Verb::Read, place).await?;
        let status = room.locks.status(&room.place.key).await?;
        let status = status.ok_or_else(|| {
            Failure::new(Code::NotFound, format!("nobody holds {:?}", room.place.key))
        })?;
        Ok(LockState { status, waiters: room.locks.waiters(&room.place.key) })
    }

    /// One page of the locks whose keys begin with `place.key`.
    ///
    /// # Errors
    /// `Invalid` for a bad page size or cursor, or what the store says.
    pub async fn list(
        &self,
        caller: &Caller,
        place: &Place,
        size: Option<usize>,
        after: Option<&str>,
    ) -> Result<PageOf, Failure> {
        let outcome = self.try_list(caller, place, size, after).await;
        self.record(caller, "list", place, |_| None, outcome)
    }

    async fn try_list(
        &self,
        caller: &Caller,
        place: &Place,
        size: Option<usize>,
        after: Option<&str>,
    ) -> Result<PageOf, Failure> {
        let place = settled(place);
        caller.must(Verb::List, &place.namespace)?;
        let size = size.unwrap_or(PAGE);
        if size == 0 || size > PAGE_MAX {
            let text = format!("page size must be 1 to {PAGE_MAX}, this one is {size}");
            return Err(Failure::invalid(text));
        }
        let locks = self.rooms.locks(&place.store, &place.namespace).await?;
        let after = after.map(Key::new).transpose()?;
        let mut found = pin!(locks.list_after(&place.key, after.as_ref()));
        let mut items = Vec::new();
        while items.len() < size {
            let Some(status) = found.next().await.transpose()? else {
                return Ok(PageOf { items, next: None });
            };
            let waiters = locks.waiters(status.key.as_str());
            items.push(LockState { status, waiters });
        }
        let next = items.last().map(|last| last.status.key.to_string());
        Ok(PageOf { items, next })
    }

    /// The stores of this server.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn stores(&self, caller: &Caller) -> Result<Vec<StoreState>, Failure> {
        caller.must(Verb::Admin, "*")?;
        let state = |(name, named, is_default): (&str, &crate::NamedStore, bool)| {
            let info = named.store.info();
            StoreState {
                name: name.to_owned(),
                kind: info.name,
                class: info.class,
                findings: info.findings.clone(),
                is_default,
            }
        };
        Ok(self.rooms.stores().map(state).collect())
    }
}

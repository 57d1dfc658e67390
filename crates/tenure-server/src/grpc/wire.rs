//! Between the messages of the API and what the calls take and give.

use std::time::Duration;

use tenure::{Event, EventKind};
use tenure_api::tenure_v1::{self as wire, watch_events_response::Kind};
use tenure_api::time::{from_wire, stamp, to_wire};

use crate::api::{LockState, Place, StoreState};
use crate::failure::Failure;

pub(super) fn place(target: Option<wire::Target>) -> Result<Place, Failure> {
    let wire::Target { key, namespace, store } =
        target.ok_or_else(|| Failure::invalid("target must be set"))?;
    Ok(Place { store, namespace, key })
}

pub(super) fn duration(
    name: &str,
    value: Option<prost_types::Duration>,
) -> Result<Option<Duration>, Failure> {
    let read = |value: prost_types::Duration| {
        from_wire(&value).ok_or_else(|| {
            let (s, n) = (value.seconds, value.nanos);
            Failure::invalid(format!("{name} must not be negative, this one is {s} s and {n} ns"))
        })
    };
    value.map(read).transpose()
}

pub(super) fn text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

pub(super) fn lock_state(state: &LockState) -> wire::LockState {
    let LockState { status, waiters } = state;
    wire::LockState {
        key: status.key.to_string(),
        fence: status.fence.get(),
        holder: status.holder.to_string(),
        ttl: Some(to_wire(status.ttl)),
        remaining: Some(to_wire(status.remaining)),
        granted_at: Some(stamp(status.granted_at)),
        waiters: count(*waiters),
    }
}

pub(super) fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

pub(super) fn store_state(state: StoreState) -> wire::StoreState {
    wire::StoreState {
        name: state.name,
        kind: state.kind.to_owned(),
        class: state.class.letter().to_owned(),
        findings: state.findings.iter().map(ToString::to_string).collect(),
        is_default: state.is_default,
    }
}

pub(super) fn event(event: Event) -> wire::WatchEventsResponse {
    let mut told = wire::WatchEventsResponse {
        key: event.key.to_string(),
        at: Some(stamp(event.at)),
        ..Default::default()
    };
    let (kind, fence, took) = match event.kind {
        EventKind::Granted { fence, waited } => (Kind::Granted, Some(fence), waited),
        EventKind::Contended { fence, holder, waited } => {
            told.holder = holder.to_string();
            (Kind::Contended, Some(fence), waited)
        }
        EventKind::TimedOut { waited } => (Kind::TimedOut, None, Some(waited)),
        EventKind::Renewed { fence, took } => (Kind::Renewed, Some(fence), Some(took)),
        EventKind::Lost { fence, reason, held } => {
            told.reason = reason.to_string();
            (Kind::Lost, Some(fence), held)
        }
        EventKind::Released { fence, held } => (Kind::Released, Some(fence), held),
        EventKind::Forced { fence, reason } => {
            told.reason = reason;
            (Kind::Forced, Some(fence), None)
        }
        EventKind::Missed { count } => {
            told.missed = count;
            (Kind::Missed, None, None)
        }
        _ => (Kind::Unspecified, None, None),
    };
    told.kind = kind.into();
    told.fence = fence.map_or(0, tenure::Fence::get);
    told.took = took.map(to_wire);
    told
}

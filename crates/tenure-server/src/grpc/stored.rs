//! Between the messages of the store service and the words of a store.

use std::time::Duration;

use tenure::claim::{Claim, Grant, Reentry};
use tenure::store::{StoreInfo, Timing};
use tenure::{Fence, Finding, Holder, Key, Owner, Severity, Status};
use tenure_api::tenure_v1::store_finding::Severity as WireSeverity;
use tenure_api::tenure_v1::{
    GetInfoResponse, StoreFinding, StoredGrant, StoredLease, TryAcquireRequest,
};
use tenure_api::time::{stamp, to_wire};

use super::wire::{count, duration};
use crate::api::STORED_KEY_MAX;
use crate::failure::Failure;

pub(super) fn key(text: &str) -> Result<Key, Failure> {
    Ok(Key::with_limit(text, STORED_KEY_MAX)?)
}

pub(super) fn ttl(ttl: Option<prost_types::Duration>) -> Result<Duration, Failure> {
    duration("ttl", ttl)?.ok_or_else(|| Failure::invalid("ttl must be set"))
}

pub(super) fn claim(request: TryAcquireRequest) -> Result<Claim, Failure> {
    Ok(Claim {
        key: key(&request.key)?,
        owner: Owner::parse(&request.owner)?,
        ttl: ttl(request.ttl)?,
        holder: Holder::new(&request.holder)?,
        reentry: if request.refuse_reentry { Reentry::Refuse } else { Reentry::Adopt },
    })
}

pub(super) fn grant(grant: Option<StoredGrant>) -> Result<Grant, Failure> {
    let grant = grant.ok_or_else(|| Failure::invalid("grant must be set"))?;
    Ok(Grant {
        key: key(&grant.key)?,
        owner: Owner::parse(&grant.owner)?,
        fence: Some(grant.fence).filter(|fence| *fence != 0).map(Fence::new),
    })
}

pub(super) fn lease(status: &Status) -> StoredLease {
    StoredLease {
        key: status.key.to_string(),
        fence: status.fence.get(),
        holder: status.holder.to_string(),
        ttl: Some(to_wire(status.ttl)),
        remaining: Some(to_wire(status.remaining)),
        granted_at: Some(stamp(status.granted_at)),
    }
}

pub(super) fn info(info: StoreInfo) -> GetInfoResponse {
    let can = info.capabilities;
    GetInfoResponse {
        kind: info.name.to_owned(),
        observer_timed: info.timing == Timing::Observer,
        durable: can.durable,
        wakes: can.wakes,
        lists: can.lists,
        ttl_min: Some(to_wire(can.ttl_min)),
        ttl_max: Some(to_wire(can.ttl_max)),
        key_bytes_max: count(can.key_bytes_max),
        findings: info.findings.into_iter().map(finding).collect(),
    }
}

fn finding(finding: Finding) -> StoreFinding {
    let severity = match finding.severity {
        Severity::Note => WireSeverity::Note,
        Severity::Warning => WireSeverity::Warning,
        Severity::Lowering => WireSeverity::Lowering,
        Severity::Refusal => WireSeverity::Refusal,
    };
    StoreFinding {
        severity: severity.into(),
        topic: finding.topic.into_owned(),
        text: finding.text,
        remedy: finding.remedy.unwrap_or_default(),
    }
}

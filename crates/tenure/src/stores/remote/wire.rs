//! The calls of the server's store service, and what their messages mean here.

use std::borrow::Cow;
use std::time::SystemTime;

use prost::Message;
use tenure_api::tenure_v1::store_finding::Severity as WireSeverity;
use tenure_api::tenure_v1::{
    AgreeRequest, AgreeResponse, ForceReleaseRequest, ForceReleaseResponse, GetInfoRequest,
    GetInfoResponse, InspectLeaseRequest, InspectLeaseResponse, ListLeasesRequest,
    ListLeasesResponse, ReleaseLeaseRequest, ReleaseLeaseResponse, RenewLeaseRequest,
    RenewLeaseResponse, StoreFinding, StoredGrant, StoredLease, TryAcquireRequest,
    TryAcquireResponse, exchange_answer, exchange_call,
};
use tenure_api::time::{from_wire, unstamp};

use super::error::MALFORMED;
use crate::claim::Grant;
use crate::effect::Effect;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Fence;
use crate::finding::{Finding, Severity};
use crate::holder::Holder;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::owner::Owner;
use crate::store::{Capabilities, StoreInfo, Timing};

/// A request with one answer.
pub(super) trait Call: Message + Clone + 'static {
    const PATH: &'static str;
    const EFFECT: Effect;
    type Answer: Message + Default + 'static;
}

macro_rules! call {
    ($method:literal, $request:ident, $effect:ident, $answer:ident) => {
        impl Call for $request {
            const PATH: &'static str = concat!("/tenure.v1.StoreService/", $method);
            const EFFECT: Effect = Effect::$effect;
            type Answer = $answer;
        }
    };
}

call!("GetInfo", GetInfoRequest, Read, GetInfoResponse);
call!("TryAcquire", TryAcquireRequest, Write, TryAcquireResponse);
call!("RenewLease", RenewLeaseRequest, Write, RenewLeaseResponse);
call!("ReleaseLease", ReleaseLeaseRequest, Write, ReleaseLeaseResponse);
call!("ForceRelease", ForceReleaseRequest, Write, ForceReleaseResponse);
call!("InspectLease", InspectLeaseRequest, Read, InspectLeaseResponse);
call!("ListLeases", ListLeasesRequest, Read, ListLeasesResponse);
// The same fingerprint twice is the same as once.
call!("Agree", AgreeRequest, Read, AgreeResponse);

/// A call that can also be one of many on a stream.
pub(super) trait Exchanged: Call {
    fn asked(self) -> exchange_call::Call;
    fn answered(answer: exchange_answer::Answer) -> Option<Self::Answer>;
}

macro_rules! exchanged {
    ($request:ident, $kind:ident) => {
        impl Exchanged for $request {
            fn asked(self) -> exchange_call::Call {
                exchange_call::Call::$kind(self)
            }

            fn answered(answer: exchange_answer::Answer) -> Option<Self::Answer> {
                match answer {
                    exchange_answer::Answer::$kind(answer) => Some(answer),
                    _ => None,
                }
            }
        }
    };
}

exchanged!(TryAcquireRequest, TryAcquire);
exchanged!(RenewLeaseRequest, RenewLease);
exchanged!(ReleaseLeaseRequest, ReleaseLease);
exchanged!(InspectLeaseRequest, InspectLease);

pub(super) const EXCHANGE_PATH: &str = "/tenure.v1.StoreService/Exchange";
pub(super) const WATCH_PATH: &str = "/tenure.v1.StoreService/WatchKeys";

pub(super) fn stored_grant(grant: &Grant) -> StoredGrant {
    StoredGrant {
        key: grant.key.to_string(),
        owner: grant.owner.expose(),
        fence: grant.fence.map_or(0, Fence::get),
    }
}

/// The lease in an answer. One that makes no sense does not say what was done.
pub(super) fn status(lease: StoredLease) -> Result<Status> {
    read(lease).ok_or_else(|| Error::unknown(MALFORMED))
}

/// The lease that an answer must have.
pub(super) fn needed(lease: Option<StoredLease>) -> Result<Status> {
    lease.and_then(read).ok_or_else(|| Error::unknown(MALFORMED))
}

fn read(lease: StoredLease) -> Option<Status> {
    Some(Status {
        key: Key::stored(lease.key),
        fence: Fence::new(lease.fence),
        ttl: from_wire(&lease.ttl?)?,
        holder: Holder::new(&lease.holder).ok()?,
        granted_at: lease.granted_at.map_or(SystemTime::UNIX_EPOCH, unstamp),
        remaining: from_wire(&lease.remaining?)?,
    })
}

pub(super) fn owned(status: Status, owner: Owner) -> Lease {
    let Status { key, fence, ttl, holder, granted_at, remaining } = status;
    Lease { key, owner, fence, ttl, holder, granted_at, remaining }
}

pub(super) fn info(answer: GetInfoResponse) -> Result<StoreInfo> {
    let kind = answer.kind;
    let mut findings = vec![Finding::note("server", format!("its store is of kind {kind}"))];
    findings.extend(answer.findings.into_iter().map(finding));
    let timing = if answer.observer_timed { Timing::Observer } else { Timing::Store };
    let times = answer.ttl_min.as_ref().zip(answer.ttl_max.as_ref());
    let times = times.and_then(|(min, max)| from_wire(min).zip(from_wire(max)));
    let (ttl_min, ttl_max) = times.ok_or_else(|| Error::new(ErrorKind::Unsupported, MALFORMED))?;
    let capabilities = Capabilities {
        shared: true,
        durable: answer.durable,
        wakes: answer.wakes,
        lists: answer.lists,
        ttl_min,
        ttl_max,
        key_bytes_max: usize::try_from(answer.key_bytes_max).unwrap_or(usize::MAX),
    };
    Ok(StoreInfo::new("remote", timing, capabilities, findings))
}

fn finding(finding: StoreFinding) -> Finding {
    let severity = match finding.severity() {
        WireSeverity::Note => Severity::Note,
        WireSeverity::Warning => Severity::Warning,
        WireSeverity::Refusal => Severity::Refusal,
        // What a later server may say and this client does not know must not raise the class.
        WireSeverity::Lowering | WireSeverity::Unspecified => Severity::Lowering,
    };
    let remedy = Some(finding.remedy).filter(|remedy| !remedy.is_empty());
    Finding { severity, topic: Cow::Owned(finding.topic), text: finding.text, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Class;

    #[test]
    fn what_the_server_says_of_its_store_is_passed_on() {
        let second = tenure_api::time::to_wire(std::time::Duration::from_secs(1));
        let lowering = StoreFinding {
            severity: WireSeverity::Lowering.into(),
            topic: "fsync".into(),
            text: "it is off".into(),
            remedy: "switch it on".into(),
        };
        let mut answer = GetInfoResponse {
            kind: "postgres".into(),
            observer_timed: true,
            ttl_min: Some(second),
            ttl_max: Some(second),
            ..GetInfoResponse::default()
        };
        let sound = info(answer.clone()).unwrap();
        assert_eq!((sound.name, sound.class), ("remote", Class::Fenced));
        assert_eq!(sound.timing, Timing::Observer);
        assert!(sound.findings[0].text.contains("postgres"));
        answer.findings = vec![lowering];
        let lowered = info(answer.clone()).unwrap();
        assert_eq!(lowered.class, Class::Efficiency);
        assert_eq!(lowered.findings[1].topic, "fsync");
        answer.ttl_min = None;
        assert_eq!(info(answer).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn every_call_is_one_of_the_service() {
        let names = String::from_utf8_lossy(tenure_api::DESCRIPTORS);
        for path in [
            GetInfoRequest::PATH,
            TryAcquireRequest::PATH,
            RenewLeaseRequest::PATH,
            ReleaseLeaseRequest::PATH,
            ForceReleaseRequest::PATH,
            InspectLeaseRequest::PATH,
            ListLeasesRequest::PATH,
            AgreeRequest::PATH,
            EXCHANGE_PATH,
            WATCH_PATH,
        ] {
            let (_, method) = path.rsplit_once('/').unwrap();
            assert!(names.contains(&format!("{method}\u{12}")), "{path}");
        }
    }
}

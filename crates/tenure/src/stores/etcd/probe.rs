//! What a cluster is worth, found out when the store is opened.

use std::time::Duration;

use super::client::Client;
use super::error::{Blame, NO_SPACE};
use super::wire::{
    Compare, DeleteRangeRequest, MemberListRequest, Op, PutRequest, RangeRequest, RequestOp,
    StatusRequest, StatusResponse, Target, TxnRequest,
};
use crate::clock::{Clock, within};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::store::{Capabilities, StoreInfo, Timing};

const LIMIT: Duration = Duration::from_secs(9);

pub(super) async fn probe(client: &Client, clock: &dyn Clock, prefix: &str) -> Result<StoreInfo> {
    let findings = within(clock, LIMIT, findings(client, prefix)).await.unwrap_or_else(|_| {
        Err(Error::unavailable(format!("etcd did not answer within {LIMIT:?}")))
    })?;
    let capabilities = Capabilities { shared: true, durable: true, ..Capabilities::default() };
    Ok(StoreInfo::new("etcd", Timing::Store, capabilities, findings))
}

async fn findings(client: &Client, prefix: &str) -> Result<Vec<Finding>> {
    client.login(None).await?;
    let status = client.call(StatusRequest {}).await.map_err(|failure| match failure.blame {
        // Where the other side wants TLS, or is no etcd at all, it just hangs up.
        Blame::Mute => {
            let text = "what listens there does not answer: is it etcd, and does it want TLS \
                        (etcds:)?";
            Error::unavailable(text).caused_by(failure.error)
        }
        Blame::Nobody | Blame::Away => failure.error,
    })?;
    if status.is_learner {
        let text = "this member of etcd is a learner: name a voting member in the URL";
        return Err(Error::unavailable(text));
    }
    if status.leader == 0 {
        return Err(Error::unavailable("etcd has no leader"));
    }
    if status.errors.iter().any(|error| error.contains("NOSPACE")) {
        return Err(Error::unavailable(NO_SPACE));
    }
    let version = Version::parse(&status.version)?;
    // Without the right to ask, the worse is assumed.
    let members = client.call(MemberListRequest {}).await.ok();
    let members = members.map(|answer| answer.members.iter().filter(|m| !m.is_learner).count());
    rights(client, prefix).await?;
    let mut findings = judge(version, members);
    findings.extend(alarms(&status));
    if client.has_login() && client.token().is_none() {
        let text = "a login is given, but etcd's authentication is off: anyone can change locks";
        findings.push(Finding::warning("auth", text).remedy("etcdctl auth enable"));
    }
    Ok(findings)
}

fn alarms(status: &StatusResponse) -> Option<Finding> {
    let text = format!("etcd reports: {}", status.errors.join("; "));
    (!status.errors.is_empty())
        .then(|| Finding::warning("alarms", text).remedy("etcdctl alarm list"))
}

/// A transaction that changes nothing, but may be sent only by whoever may change everything.
async fn rights(client: &Client, prefix: &str) -> Result<()> {
    let key = format!("{prefix}t1-probe").into_bytes();
    let op = |op| RequestOp { request: Some(op) };
    let range = RangeRequest { key: key.clone(), limit: 1, ..RangeRequest::default() };
    let put = PutRequest { key: key.clone(), ..PutRequest::default() };
    let delete = DeleteRangeRequest { key: key.clone() };
    let txn = TxnRequest {
        // Nothing was ever created at this revision.
        compare: vec![Compare::equal(key, Target::Create(i64::MAX))],
        success: vec![op(Op::Put(put))],
        failure: vec![op(Op::Range(range)), op(Op::Delete(delete))],
    };
    client.call(txn).await.map_err(|failure| failure.error.of_no_matter())?;
    Ok(())
}

/// Major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

impl Version {
    fn parse(text: &str) -> Result<Self> {
        let number = text.split(['-', '+']).next().unwrap_or(text);
        let mut parts = number.split('.').map(|part| part.parse().ok());
        match (parts.next().flatten(), parts.next().flatten(), parts.next().flatten()) {
            (Some(major), Some(minor), Some(patch)) if (major, minor) >= (3, 4) => {
                Ok(Self(major, minor, patch))
            }
            _ => {
                let text = "this version of etcd is too old or unknown: 3.4 is the least";
                Err(Error::new(ErrorKind::Unsupported, text))
            }
        }
    }

    /// Whether it lacks a fix that came to 3.4 and 3.5 (and later ones) with these patches.
    fn lacks(self, patches: [(u32, u32); 3]) -> bool {
        patches.iter().any(|&(minor, patch)| (self.0, self.1) == (3, minor) && self.2 < patch)
    }
}

/// Bugs of etcd that touch a promise, by version and number of voting members.
fn judge(version: Version, members: Option<usize>) -> Vec<Finding> {
    let Version(major, minor, patch) = version;
    let mut findings = vec![Finding::note("version", format!("etcd {major}.{minor}.{patch}"))];
    let upgrade = |to: &str| format!("upgrade to {to}, or a later release");
    if (Version(3, 5, 0)..Version(3, 5, 3)).contains(&version) {
        let text = "this version may lose writes when a member crashes under load (etcd#13766)";
        findings.push(Finding::lowering("version", text).remedy(upgrade("3.5.3")));
    }
    if members == Some(1) {
        let text = "one member: what it has granted survives its crash, but not its disk";
        findings.push(Finding::note("members", text));
        if version.lacks([(4, 21), (5, 5), (6, 0)]) {
            let text = "this version may answer before it has synced, when it is alone \
                        (etcd#14370)";
            findings.push(Finding::lowering("version", text).remedy(upgrade("3.4.21 or 3.5.5")));
        }
    } else {
        if version.lacks([(4, 31), (5, 13), (6, 0)]) {
            let text = "in this version a leader that stalls and is replaced may end live leases \
                        (etcd#15247)";
            findings.push(Finding::lowering("version", text).remedy(upgrade("3.4.31 or 3.5.13")));
        }
        if version.lacks([(4, 42), (5, 28), (6, 9)]) {
            let text = "in this version a member that stalls may read stale data (etcd#20418)";
            let finding = Finding::warning("version", text);
            findings.push(finding.remedy(upgrade("3.4.42, 3.5.28 or 3.6.9")));
        }
    }
    let text = "a snapshot that is restored takes the fences back";
    let remedy = "restore with --bump-revision and --mark-compacted (since 3.5.10)";
    findings.push(Finding::note("snapshots", text).remedy(remedy));
    findings
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing {
    use super::{Finding, Result, Version, judge};

    /// What is found in the version of an etcd with so many voting members.
    ///
    /// # Errors
    /// As the store gets them.
    pub fn etcd_version(text: &str, members: Option<usize>) -> Result<Vec<Finding>> {
        Version::parse(text).map(|version| judge(version, members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn lowered(text: &str, members: Option<usize>) -> bool {
        let findings = judge(Version::parse(text).unwrap(), members);
        findings.iter().any(|finding| finding.severity == Severity::Lowering)
    }

    #[test]
    fn a_version_is_judged_by_its_bugs() {
        assert!(!lowered("3.4.23", Some(1)) && lowered("3.4.23", Some(3)));
        assert!(lowered("3.4.23", None) && lowered("3.4.20", Some(1)));
        assert!(lowered("3.5.2", Some(1)) && lowered("3.5.12", Some(3)));
        for good in ["3.4.31", "3.5.13", "3.6.0", "3.7.0-rc.0", "4.0.0"] {
            assert!(!lowered(good, Some(3)), "{good}");
        }
        for bad in ["3.3.27", "2.3.8", "", "3.4", "new"] {
            let error = Version::parse(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{bad}");
        }
    }
}

//! What the live configuration of Redis is worth, found out when the store is opened.

use std::collections::HashMap;

use ::redis::{Value, from_redis_value};

use super::error::{Fault, LOADING, too_old};
use super::nodes::Nodes;
use super::options::{Address, Layout};
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::finding::Finding;

/// The oldest version that has what the store uses.
const OLDEST: (u32, u32) = (6, 0);

/// What was found out.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    /// Whether leases outlive a restart of the server.
    pub(super) durable: bool,
}

impl Report {
    fn add(&mut self, finding: Finding) {
        // The nodes of a Cluster mostly say the same.
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// Asks every node that keys are on.
pub(super) async fn probe(nodes: &Nodes) -> Result<Report> {
    let mut report = Report { durable: true, ..Report::default() };
    let layout = &nodes.dialer().options().layout;
    for address in nodes.primaries() {
        let info = Info::ask(nodes, &address).await?;
        info.refuse(layout)?;
        let syncing = Syncing::ask(nodes, &address).await?;
        info.judge(layout, &syncing, &mut report);
    }
    report.add(Finding::wall_clock("the Redis server"));
    Ok(report)
}

/// The answer to `INFO`.
struct Info(HashMap<String, String>);

impl Info {
    async fn ask(nodes: &Nodes, address: &Address) -> Result<Self> {
        let answer = nodes.call_at(address, &::redis::cmd("INFO")).await;
        let answer = answer.map_err(|fault| fault.explain(Effect::Read))?;
        let text: String = from_redis_value(answer)
            .map_err(|error| Error::unavailable("INFO has no text to it").caused_by(error))?;
        Ok(Self::read(&text))
    }

    fn read(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn refuse(&self, layout: &Layout) -> Result<()> {
        let version = self.get("redis_version");
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if found < OLDEST {
            return Err(too_old(version));
        }
        if self.get("loading") == "1" {
            return Err(Error::unavailable(LOADING));
        }
        if self.get("cluster_enabled") == "1" && *layout != Layout::Cluster {
            let text =
                "this Redis is a node of a Cluster: use redis+cluster:// or rediss+cluster://";
            return Err(Error::invalid(text));
        }
        Ok(())
    }

    fn judge(&self, layout: &Layout, syncing: &Syncing, report: &mut Report) {
        self.version(report);
        self.replication(layout, report);
        self.memory(report);
        self.persistence(syncing, report);
    }

    fn version(&self, report: &mut Report) {
        let valkey = self.get("valkey_version");
        let text = match valkey {
            "" => format!("Redis {}", self.get("redis_version")),
            valkey => format!("Valkey {valkey}"),
        };
        report.add(Finding::note("version", text));
    }

    fn replication(&self, layout: &Layout, report: &mut Report) {
        let why = match layout {
            Layout::Cluster => "a Cluster fails over",
            Layout::Sentinel { .. } => "Sentinels fail over",
            Layout::Single if self.get("connected_slaves") != "0" => "there are replicas",
            Layout::Single => return,
        };
        let text = format!(
            "{why}, and a replica that takes over may not have the last grants yet: two may then \
             hold one key (fences still grow, unless the clock of that replica is behind)"
        );
        report.add(
            Finding::lowering("replication", text)
                .remedy("let the resource check the fence, or use one server without replicas"),
        );
    }

    fn memory(&self, report: &mut Report) {
        let (max, policy) = (self.get("maxmemory"), self.get("maxmemory_policy"));
        if max == "0" || policy == "noeviction" {
            return;
        }
        let text = format!(
            "when the memory is full, Redis evicts keys by {policy:?}, and may evict a lock that \
             is held"
        );
        report.add(
            Finding::lowering("maxmemory-policy", text)
                .remedy("CONFIG SET maxmemory-policy noeviction, or use another server for locks"),
        );
    }

    fn persistence(&self, syncing: &Syncing, report: &mut Report) {
        let remedy = "CONFIG SET appendonly yes and appendfsync always, and in redis.conf";
        if self.get("aof_enabled") != "1" {
            report.durable = false;
            let text = "what was granted is not in an append-only file: a restart loses locks that \
                        are held (fences still grow, unless the clock is set back)";
            report.add(Finding::lowering("appendonly", text).remedy(remedy));
            return;
        }
        let finding = match syncing.when.as_deref() {
            Some("always") if syncing.pauses.as_deref() == Some("no") => return,
            Some("always") => Finding::lowering(
                "no-appendfsync-on-rewrite",
                "the append-only file is not synced while Redis rewrites it or saves a snapshot: a \
                 crash of the machine meanwhile may lose grants (fences still grow, unless the \
                 clock is set back)",
            )
            .remedy("CONFIG SET no-appendfsync-on-rewrite no, and in redis.conf"),
            Some(fsync) => Finding::lowering(
                "appendfsync",
                format!(
                    "the append-only file is synced {fsync:?} and not before the answer: a crash \
                     of the machine may lose the last grants (fences still grow, unless the \
                     clock is set back)"
                ),
            )
            .remedy(remedy),
            None => Finding::lowering(
                "appendfsync",
                "CONFIG GET appendfsync is not allowed here, so the worst is assumed: that a crash \
                 of the machine may lose the last grants",
            )
            .remedy("allow the user +config|get"),
        };
        report.add(finding);
    }
}

/// How the append-only file is synced; `None` where Redis does not tell.
struct Syncing {
    /// The setting `appendfsync`.
    when: Option<String>,
    /// The setting `no-appendfsync-on-rewrite`.
    pauses: Option<String>,
}

impl Syncing {
    async fn ask(nodes: &Nodes, address: &Address) -> Result<Self> {
        Ok(Self {
            when: setting(nodes, address, "appendfsync").await?,
            pauses: setting(nodes, address, "no-appendfsync-on-rewrite").await?,
        })
    }
}

/// Before version 7, only one can be asked for at a time.
async fn setting(nodes: &Nodes, address: &Address, name: &str) -> Result<Option<String>> {
    let mut command = ::redis::cmd("CONFIG");
    command.arg("GET").arg(name);
    let answer: Value = match nodes.call_at(address, &command).await {
        Ok(answer) => answer,
        Err(Fault::Refused(_)) => return Ok(None),
        Err(fault) => return Err(fault.explain(Effect::Read)),
    };
    let mut settings: HashMap<String, String> = from_redis_value(answer).unwrap_or_default();
    Ok(settings.remove(name))
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing {
    use super::{Finding, Info, Layout, Report, Result, Syncing};

    /// What is found in an answer to `INFO` of a server alone that syncs its log as it should.
    ///
    /// # Errors
    /// As the store gets them.
    pub fn redis_info(text: &str) -> Result<Vec<Finding>> {
        let (info, mut report) = (Info::read(text), Report::default());
        info.refuse(&Layout::Single)?;
        let syncing = Syncing { when: Some("always".into()), pauses: Some("no".into()) };
        info.judge(&Layout::Single, &syncing, &mut report);
        Ok(report.findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn info(pairs: &[(&str, &str)]) -> Info {
        let usual = [
            ("redis_version", "7.0.15"),
            ("connected_slaves", "0"),
            ("maxmemory", "0"),
            ("maxmemory_policy", "noeviction"),
            ("aof_enabled", "1"),
        ];
        let all = usual.iter().chain(pairs);
        Info(all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn lowered(info: &Info, layout: &Layout, fsync: Option<&str>) -> Vec<String> {
        lowered_with(
            info,
            layout,
            &Syncing { when: fsync.map(str::to_owned), pauses: Some("no".into()) },
        )
    }

    fn lowered_with(info: &Info, layout: &Layout, syncing: &Syncing) -> Vec<String> {
        let mut report = Report::default();
        info.judge(layout, syncing, &mut report);
        let lowering = report.findings.iter().filter(|f| f.severity == Severity::Lowering);
        let lowering = lowering.inspect(|finding| assert!(finding.remedy.is_some()));
        lowering.map(|finding| finding.topic.to_string()).collect()
    }

    #[test]
    fn every_reason_lowers_the_class() {
        let (one, always) = (&Layout::Single, Some("always"));
        assert!(lowered(&info(&[]), one, always).is_empty());
        assert_eq!(lowered(&info(&[]), &Layout::Cluster, always), ["replication"]);
        let replicas = info(&[("connected_slaves", "2")]);
        assert_eq!(lowered(&replicas, one, always), ["replication"]);
        let full = info(&[("maxmemory", "100"), ("maxmemory_policy", "allkeys-lru")]);
        assert_eq!(lowered(&full, one, always), ["maxmemory-policy"]);
        // Without a limit nothing is evicted, and with noeviction neither.
        assert!(lowered(&info(&[("maxmemory_policy", "allkeys-lru")]), one, always).is_empty());
        assert!(lowered(&info(&[("maxmemory", "100")]), one, always).is_empty());
        assert_eq!(lowered(&info(&[("aof_enabled", "0")]), one, always), ["appendonly"]);
        for fsync in [Some("everysec"), Some("no"), None] {
            assert_eq!(lowered(&info(&[]), one, fsync), ["appendfsync"]);
        }
        for pauses in [Some("yes".to_owned()), None] {
            let syncing = Syncing { when: Some("always".into()), pauses };
            let lowered = lowered_with(&info(&[]), one, &syncing);
            assert_eq!(lowered, ["no-appendfsync-on-rewrite"]);
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let single = &Layout::Single;
        assert!(info(&[]).refuse(single).is_ok());
        let text = |pairs| info(pairs).refuse(single).unwrap_err().to_string();
        assert!(text(&[("redis_version", "5.0.14")]).contains("this is 5.0.14"));
        assert!(text(&[("loading", "1")]).contains("loading"));
        assert!(text(&[("cluster_enabled", "1")]).contains("redis+cluster"));
        assert!(info(&[("cluster_enabled", "1")]).refuse(&Layout::Cluster).is_ok());
    }
}

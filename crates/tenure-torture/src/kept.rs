//! A guard that is kept alive goes on holding, unless there was a reason not to.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_check::History;

use crate::deed::{Deed, Done};
use crate::fault::Struck;
use crate::job::{TTL_LONG, nanos};
use crate::outages::{Windows, overlaps};

/// What an answer takes at the least where a short lease may be lost because of it: of its renewals
/// the first may be kept waiting for half a second, and the next for that long.
pub(crate) const SLOW: Duration = Duration::from_millis(200);

/// The ttl and the fence of each claim that was granted, by worker and number.
pub(crate) type Claims = BTreeMap<(u64, u64), (u64, u64)>;

/// What excuses a loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reasons<'a> {
    /// When each worker could not reach the store, or stood still, and not a moment longer.
    pub(crate) away: &'a BTreeMap<u64, Windows>,
    /// When questions of each worker may have failed, or the machine was late.
    pub(crate) wrong: &'a BTreeMap<u64, Windows>,
    /// When the store answered, but slowly.
    pub(crate) slow: &'a [(u64, u64)],
    /// The faults that spoiled connections, by the part of the network; and who is on which.
    pub(crate) spoiled: &'a BTreeMap<usize, Windows>,
    pub(crate) links: &'a BTreeMap<u64, usize>,
}

/// What spoiled connections, each fault by itself.
pub(crate) fn spoiled(struck: &[Struck]) -> BTreeMap<usize, Windows> {
    let mut spoiled = BTreeMap::<usize, Windows>::new();
    for fault in struck.iter().filter(|fault| fault.kind.spoils_connections()) {
        let windows = fault.link.map(|link| spoiled.entry(link).or_default());
        windows.into_iter().for_each(|windows| windows.push((fault.begin, fault.end)));
    }
    spoiled
}

/// Finds guards that lost their lease although nobody took it by force, the worker ran, and the
/// store was there: in the last ttl of a long lease for three quarters of it at the least, and in
/// that of a short one, which is renewed every 0.7 s, all of the time. To find out that connections
/// are spoiled takes time for two renewals, so a long lease must outlast that once, but not twice.
pub(crate) fn check(
    history: &History,
    deeds: &[Deed],
    claims: &Claims,
    reasons: Reasons<'_>,
) -> Vec<String> {
    let mut found = Vec::new();
    for deed in deeds.iter().filter(|deed| deed.what == Done::Gone) {
        let Some((ttl, fence)) = claims.get(&(deed.worker, deed.claim)) else { continue };
        let from = deed.at.saturating_sub(*ttl);
        if reasons.excuse(deed, from, *ttl) || history.is_forced(&deed.key, *fence) {
            continue;
        }
        let gone = Duration::from_nanos(reasons.gone(deed, from));
        found.push(format!(
            "worker {} lost {} (fence {fence}) although the store was away for {gone:?} only",
            deed.worker, deed.key
        ));
    }
    found
}

impl Reasons<'_> {
    fn excuse(&self, deed: &Deed, from: u64, ttl: u64) -> bool {
        if ttl == nanos(TTL_LONG) {
            return self.gone(deed, from) >= ttl / 4 || self.spoiled(deed, from) >= 2;
        }
        let wrong = self.wrong.get(&deed.worker).map_or(&[][..], Vec::as_slice);
        overlaps(wrong, from, deed.at) || overlaps(self.slow, from, deed.at)
    }

    /// How many times its connections were spoiled since then.
    fn spoiled(&self, deed: &Deed, from: u64) -> usize {
        let faults = self.links.get(&deed.worker).and_then(|link| self.spoiled.get(link));
        let within = |(begin, end): &&(u64, u64)| *begin < deed.at && *end > from;
        faults.into_iter().flatten().filter(within).count()
    }

    /// For how long the store was away since then.
    fn gone(&self, deed: &Deed, from: u64) -> u64 {
        let within = |(a, b): &(u64, u64)| (*b).min(deed.at).saturating_sub((*a).max(from));
        self.away.get(&deed.worker).into_iter().flatten().map(within).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;
    use crate::job::TTL_SHORT;

    const SECOND: u64 = 1_000_000_000;

    /// A guard that is gone at 60 s.
    fn lost(ttl: u64) -> (Deed, Claims) {
        let deed = Deed { worker: 1, claim: 2, key: "k".into(), at: 60 * SECOND, what: Done::Gone };
        (deed, BTreeMap::from([((1, 2), (ttl, 7))]))
    }

    /// What is found of it.
    fn found(ttl: u64, away: (u64, u64), wrong: (u64, u64)) -> usize {
        found_while_slow(ttl, away, wrong, &[])
    }

    fn found_while_slow(
        ttl: u64,
        away: (u64, u64),
        wrong: (u64, u64),
        slow: &[(u64, u64)],
    ) -> usize {
        let (deed, claims) = lost(ttl);
        let [away, wrong] = [away, wrong]
            .map(|(from, until)| BTreeMap::from([(1, vec![(from * SECOND, until * SECOND)])]));
        let reasons = Reasons {
            away: &away,
            wrong: &wrong,
            slow,
            spoiled: &BTreeMap::new(),
            links: &BTreeMap::new(),
        };
        check(&History::default(), &[deed], &claims, reasons).len()
    }

    #[test]
    fn a_loss_needs_a_reason() {
        assert_eq!(found(nanos(TTL_LONG), (40, 51), (40, 59)), 1);
        assert_eq!(found(nanos(TTL_LONG), (40, 53), (40, 41)), 0);
    }

    #[test]
    fn a_long_lease_outlasts_spoiled_connections_once() {
        let found = |faults: &[u64]| {
            let struck: Vec<Struck> = faults.iter().map(|at| half_open(*at)).collect();
            let (deed, claims) = lost(nanos(TTL_LONG));
            let none = BTreeMap::new();
            let (spoiled, links) = (spoiled(&struck), BTreeMap::from([(1, 2)]));
            let reasons =
                Reasons { away: &none, wrong: &none, slow: &[], spoiled: &spoiled, links: &links };
            check(&History::default(), &[deed], &claims, reasons).len()
        };
        assert_eq!((found(&[52]), found(&[52, 57]), found(&[45, 57])), (1, 0, 1));
    }

    fn half_open(at: u64) -> Struck {
        let (kind, target) = (Kind::HalfOpen, String::new());
        Struck { kind, target, link: Some(2), begin: at * SECOND, end: (at + 1) * SECOND }
    }

    #[test]
    fn a_short_lease_may_be_lost_when_anything_was_wrong_just_then() {
        let ttl = nanos(TTL_SHORT);
        assert_eq!(found(ttl, (40, 41), (40, 57)), 1);
        assert_eq!(found(ttl, (40, 41), (40, 59)), 0);
    }

    #[test]
    fn a_short_lease_may_be_lost_when_the_store_was_slow_for_others() {
        let found = |ttl, at: u64| {
            found_while_slow(ttl, (40, 41), (40, 41), &[(at * SECOND, (at + 1) * SECOND)])
        };
        assert_eq!((found(nanos(TTL_SHORT), 56), found(nanos(TTL_SHORT), 58)), (1, 0));
        assert_eq!(found(nanos(TTL_LONG), 58), 1);
    }
}

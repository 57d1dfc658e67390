//! A guard that is kept alive goes on holding, unless there was a reason not to.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_check::History;

use crate::deed::{Deed, Done};
use crate::job::{TTL_LONG, nanos};

/// Finds guards that lost a long lease although nobody took it by force, the worker ran, and the
/// store was there: for all but a quarter of the last ttl at the least.
pub(crate) fn check(
    history: &History,
    deeds: &[Deed],
    claims: &BTreeMap<(u64, u64), (u64, u64)>,
    away: &BTreeMap<u64, Vec<(u64, u64)>>,
) -> Vec<String> {
    let mut found = Vec::new();
    for deed in deeds.iter().filter(|deed| deed.what == Done::Gone) {
        let Some((ttl, fence)) = claims.get(&(deed.worker, deed.claim)) else { continue };
        let from = deed.at.saturating_sub(nanos(TTL_LONG));
        let within = |(a, b): &(u64, u64)| (*b).min(deed.at).saturating_sub((*a).max(from));
        let gone: u64 = away.get(&deed.worker).into_iter().flatten().map(within).sum();
        let is_excused = gone >= nanos(TTL_LONG) / 4 || history.is_forced(&deed.key, *fence);
        if *ttl == nanos(TTL_LONG) && !is_excused {
            let gone = Duration::from_nanos(gone);
            found.push(format!(
                "worker {} lost {} (fence {fence}) although the store was away for {gone:?} only",
                deed.worker, deed.key
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_loss_needs_a_reason() {
        let deed = Deed { worker: 1, claim: 2, key: "k".into(), at: 60 * SECOND, what: Done::Gone };
        let claims = BTreeMap::from([((1, 2), (nanos(TTL_LONG), 7))]);
        let found = |away: Vec<(u64, u64)>| {
            let away = BTreeMap::from([(1, away)]);
            check(&History::default(), std::slice::from_ref(&deed), &claims, &away).len()
        };
        assert_eq!(found(vec![(40 * SECOND, 51 * SECOND)]), 1);
        assert_eq!(found(vec![(40 * SECOND, 53 * SECOND)]), 0);
    }
}

//! Whoever holds a lock and asks for it again, with the same owner, is given the same grant.

use tenure_check::History;

use crate::deed::{Deed, Done};
use crate::kept::Claims;

/// Finds holders that were refused, or given another grant, although they believed in their own and
/// nobody had taken it by force.
pub(crate) fn check(history: &History, deeds: &[Deed], claims: &Claims) -> Vec<String> {
    let mut found = Vec::new();
    for deed in deeds {
        let Done::Again { fence: given } = deed.what else { continue };
        let Some((_, fence)) = claims.get(&(deed.worker, deed.claim)) else { continue };
        if given == Some(*fence) || history.is_forced(&deed.key, *fence) {
            continue;
        }
        let told = match given {
            Some(other) => format!("was given fence {other}"),
            None => "was refused".to_owned(),
        };
        let Deed { worker, key, .. } = deed;
        found.push(format!("worker {worker} held {key} (fence {fence}), asked again and {told}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn whoever_asks_again_has_the_same_grant() {
        let claims = BTreeMap::from([((1, 2), (1_000, 7))]);
        let found = |fence| {
            let what = Done::Again { fence };
            let deed = Deed { worker: 1, claim: 2, key: "k".into(), at: 60, what };
            check(&History::default(), &[deed], &claims).len()
        };
        assert_eq!([found(Some(7)), found(Some(8)), found(None)], [0, 1, 1]);
    }
}

//! What the store said of who holds a key, to those who looked, prolonged a lease or took it by
//! force.

use std::collections::BTreeMap;

use tenure_check::history::Look;

use crate::deed::{Deed, Done};
use crate::outages::{Windows, begun};

/// How much later than it was answered a renewal may be written down.
const LATER: u64 = 20_000_000;

/// All that was answered. The lines of each worker are in the order in which it wrote them;
/// `stopped` is when it may have stood still before it wrote one.
pub(crate) fn looks(deeds: &[Deed], stopped: &BTreeMap<u64, Windows>) -> Vec<Look> {
    let mut asked = BTreeMap::<(u64, u64), u64>::new();
    let mut looks = Vec::new();
    for deed in deeds {
        let claim = (deed.worker, deed.claim);
        let (fence, forces, since) = match deed.what {
            Done::LookAsked | Done::ForceAsked => {
                asked.insert(claim, deed.at);
                continue;
            }
            Done::Looked { fence } => (fence, false, asked.remove(&claim)),
            Done::Forced { fence } => (fence, true, asked.remove(&claim)),
            Done::Renewed { fence, took } => {
                let since = deed.at.saturating_sub(took + LATER);
                let windows = stopped.get(&deed.worker).map_or(&[][..], Vec::as_slice);
                let since = begun(windows, since, deed.at)
                    .map_or(since, |at| since.min(at.saturating_sub(took + LATER)));
                (Some(fence), false, Some(since))
            }
            Done::LookFailed { .. }
            | Done::ForceFailed { .. }
            | Done::Gone
            | Done::Again { .. }
            | Done::Unheard
            | Done::RenewFailed { .. }
            | Done::Unasked
            | Done::Unsaid => continue,
        };
        let look = |asked| Look { key: deed.key.clone(), asked, answered: deed.at, fence, forces };
        looks.extend(since.map(look));
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(claim: u64, at: u64, what: Done) -> Deed {
        Deed { worker: 1, claim, key: "k".into(), at, what }
    }

    fn look(asked: u64, answered: u64, fence: Option<u64>, forces: bool) -> Look {
        Look { key: "k".to_owned(), asked, answered, fence, forces }
    }

    #[test]
    fn only_what_was_answered_is_there() {
        let deeds = [
            deed(1, 1, Done::LookAsked),
            deed(2, 2, Done::ForceAsked),
            deed(3, 3, Done::LookAsked),
            deed(1, 4, Done::Looked { fence: None }),
            deed(3, 5, Done::LookFailed { kind: "Unavailable".into() }),
            deed(2, 6, Done::Forced { fence: Some(7) }),
        ];
        let expected = [look(1, 4, None, false), look(2, 6, Some(7), true)];
        assert_eq!(looks(&deeds, &BTreeMap::new()), expected);
    }

    #[test]
    fn a_renewal_is_a_look_from_when_it_was_sent() {
        let at = 100 * LATER;
        let deeds = [deed(0, at, Done::Renewed { fence: 3, took: 5 })];
        let sent = at - 5 - LATER;
        assert_eq!(looks(&deeds, &BTreeMap::new()), [look(sent, at, Some(3), false)]);
        // It may have been answered before its worker was stopped.
        let stopped = BTreeMap::from([(1, vec![(50 * LATER, at - 2)])]);
        let sent = 50 * LATER - 5 - LATER;
        assert_eq!(looks(&deeds, &stopped), [look(sent, at, Some(3), false)]);
    }
}

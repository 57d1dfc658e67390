//! What the store said of who holds a key, to those who looked and those who took it by force.

use std::collections::BTreeMap;

use tenure_check::history::Look;

use crate::deed::{Deed, Done};

/// All that was answered. The lines of each worker are in the order in which it wrote them.
pub(crate) fn looks(deeds: &[Deed]) -> Vec<Look> {
    let mut asked = BTreeMap::<(u64, u64), u64>::new();
    let mut looks = Vec::new();
    for deed in deeds {
        let claim = (deed.worker, deed.claim);
        let (fence, forces) = match deed.what {
            Done::LookAsked | Done::ForceAsked => {
                asked.insert(claim, deed.at);
                continue;
            }
            Done::Looked { fence } => (fence, false),
            Done::Forced { fence } => (fence, true),
            _ => continue,
        };
        let look = |asked| Look { key: deed.key.clone(), asked, answered: deed.at, fence, forces };
        looks.extend(asked.remove(&claim).map(look));
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_answered_is_there() {
        let deed = |claim, at, what| Deed { worker: 1, claim, key: "k".into(), at, what };
        let deeds = [
            deed(1, 1, Done::LookAsked),
            deed(2, 2, Done::ForceAsked),
            deed(3, 3, Done::LookAsked),
            deed(1, 4, Done::Looked { fence: None }),
            deed(3, 5, Done::LookFailed { kind: "Unavailable".into() }),
            deed(2, 6, Done::Forced { fence: Some(7) }),
        ];
        let look = |asked, answered, fence, forces| {
            let key = "k".to_owned();
            Look { key, asked, answered, fence, forces }
        };
        assert_eq!(looks(&deeds), [look(1, 4, None, false), look(2, 6, Some(7), true)]);
    }
}

//! Nobody is told that a key is held without having heard that from the store.

use crate::deed::{Deed, Done};

/// Finds claims that were told so although none of their questions was answered so, nor any other
/// of their process since they began, nor had that a guard. What is down is not held.
pub(crate) fn check(deeds: &[Deed]) -> Vec<String> {
    let made_up = deeds.iter().filter(|deed| deed.what == Done::Unsaid);
    let text = |deed: &Deed| {
        let Deed { worker, claim, .. } = deed;
        format!("worker {worker} was told that the key of its claim {claim} is held: by nobody")
    };
    made_up.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_said_is_found() {
        let deed = |what| Deed { worker: 1, claim: 2, key: String::new(), at: 3, what };
        assert_eq!(check(&[deed(Done::Unasked), deed(Done::Unsaid)]).len(), 1);
    }
}

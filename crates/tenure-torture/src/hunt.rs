//! The hunt for planted bugs: each is tried out until it is found, and the same without it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::judge::{Judgement, PANICKED};
use crate::planted::{ALL, Planted};
use crate::run::{Order, Outcome, run};
use crate::subject::Subject;

/// How often a bug is tried out until it is found, each time with the next seed: in some runs the
/// faults miss what they have to hit.
const TRIES: u64 = 3;

/// What became of one bug.
#[derive(Clone, Debug)]
pub(crate) struct Hunt {
    pub(crate) bug: &'static str,
    pub(crate) store: &'static str,
    /// The checker that has to find it.
    pub(crate) finder: &'static str,
    /// The checkers that found it in the last try, and how often.
    pub(crate) found: Vec<(&'static str, usize)>,
    /// How often it was tried out.
    pub(crate) tries: u64,
    /// What the last try found without the bug: nothing, or the hunt proves nothing.
    pub(crate) sound: Vec<(&'static str, usize)>,
    example: String,
    /// Why it could not be carried out, if it could not.
    failure: Option<String>,
}

impl Hunt {
    /// Tries a bug out until it is found, and then the last try again without it.
    async fn of(
        planted: Planted,
        order: Order,
        run: impl AsyncFn(Order) -> Result<Judgement>,
    ) -> Self {
        let mut hunt = Self {
            bug: planted.name,
            store: planted.store,
            finder: planted.finder,
            found: Vec::new(),
            tries: 0,
            sound: Vec::new(),
            example: String::new(),
            failure: None,
        };
        let outcome = hunt.carry_out(order, run).await;
        hunt.failure = outcome.err().map(|error| format!("{error:#}"));
        hunt
    }

    async fn carry_out(
        &mut self,
        order: Order,
        run: impl AsyncFn(Order) -> Result<Judgement>,
    ) -> Result<()> {
        let mut seed = order.seed;
        while !self.is_found() && self.tries < TRIES {
            seed = order.seed + self.tries;
            self.tries += 1;
            let judgement = run(Order { seed, ..order.clone() }).await?;
            self.found = judgement.broken();
            let texts = judgement.texts();
            let own = texts.iter().find(|text| text.starts_with(self.finder));
            self.example = own.or(texts.first()).cloned().unwrap_or_default();
        }
        let sound = run(Order { seed, planted: None, ..order }).await.context("without the bug")?;
        ensure!(sound.tally.granted() > 0, "nothing was granted without the bug");
        self.sound = sound.broken();
        Ok(())
    }

    /// Whether it was found, and nothing where it is not. A bug of the workers is no reason for a
    /// server to panic.
    pub(crate) fn is_good(&self) -> bool {
        let panicked = self.found.iter().any(|(name, _)| *name == PANICKED);
        self.failure.is_none() && self.sound.is_empty() && self.is_found() && !panicked
    }

    /// Something that was found, or why nothing can be told.
    pub(crate) fn remark(&self) -> String {
        match &self.failure {
            Some(failure) => format!("COULD NOT BE CARRIED OUT: {failure}"),
            None => self.example.clone(),
        }
    }

    fn is_found(&self) -> bool {
        self.found.iter().any(|(name, _)| *name == self.finder)
    }

    /// One line about it.
    pub(crate) fn line(&self) -> String {
        let Self { bug, store, finder, found, tries, sound, .. } = self;
        let example = self.remark();
        let missing = match self.is_found() {
            true => format!(" (try {tries})"),
            false => format!(" (NOT BY {finder}, in {tries} tries)"),
        };
        let without = match sound.is_empty() {
            true => String::new(),
            false => format!(" (WITHOUT IT TOO: {})", listed(sound)),
        };
        format!("{bug:18} {store:10} {}{missing}{without}: {example}", listed(found))
    }
}

/// Takes away what a run has written down, or says where it is: what was found without the bug is
/// worth a look, and so is a panic.
fn finish(outcome: &Outcome, bug: &str, keep: bool) -> Result<()> {
    let Outcome { order, judgement, .. } = outcome;
    let is_sound = order.planted.is_some() || judgement.broken().is_empty();
    if keep || !is_sound || !judgement.panicked.is_empty() {
        println!("{bug}: history {}", outcome.folder.display());
        return Ok(());
    }
    Ok(std::fs::remove_dir_all(&outcome.folder)?)
}

/// What was found, and how often.
pub(crate) fn listed(found: &[(&str, usize)]) -> String {
    let found: Vec<String> = found.iter().map(|(name, n)| format!("{name} {n}")).collect();
    if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
}

fn chosen(filter: &str) -> Result<Vec<Planted>> {
    let chosen: Vec<_> =
        ALL.iter().copied().filter(|planted| planted.name.contains(filter)).collect();
    ensure!(!chosen.is_empty(), "there is no planted bug with {filter:?} in its name");
    Ok(chosen)
}

/// Tries out every bug whose name contains `filter`, and the same without it; prints what becomes
/// of each. On another store than its own, if one is named.
pub(crate) async fn hunt(
    filter: &str,
    store: Option<Subject>,
    length: Duration,
    seed: u64,
    keep: bool,
) -> Result<Vec<Hunt>> {
    let mut hunts = Vec::new();
    for mut planted in chosen(filter)? {
        planted.store = store.map_or(planted.store, |subject| subject.name);
        let order = planted.order(length, seed)?;
        let hunt = Hunt::of(planted, order, async |order| {
            let outcome = run(order).await?;
            finish(&outcome, planted.name, keep)?;
            Ok(outcome.judgement)
        });
        let hunt = hunt.await;
        println!("{}", hunt.line());
        hunts.push(hunt);
    }
    Ok(hunts)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::tally::Tally;

    /// What becomes of a bug that is found in this try, and the seeds of all runs, each with
    /// whether the bug was in it.
    async fn hunted(found_in: u64) -> (Hunt, Vec<(u64, bool)>) {
        let planted = Planted::named("unbounded-renewal").unwrap();
        let runs = RefCell::new(Vec::new());
        let order = planted.order(Duration::ZERO, 7).unwrap();
        let hunt = Hunt::of(planted, order, async |order: Order| {
            let mut judgement = Judgement { tally: Tally::of_grants(1), ..Judgement::default() };
            runs.borrow_mut().push((order.seed, order.planted.is_some()));
            if order.planted.is_some() && order.seed == 6 + found_in {
                judgement.kept = vec!["x".to_owned()];
            }
            Ok(judgement)
        });
        (hunt.await, runs.into_inner())
    }

    #[tokio::test]
    async fn the_try_that_found_a_bug_is_made_again_without_it() {
        let (hunt, runs) = hunted(2).await;
        assert!(hunt.is_good(), "{hunt:?}");
        assert_eq!(runs, [(7, true), (8, true), (8, false)]);
        let (hunt, runs) = hunted(9).await;
        assert!(!hunt.is_good(), "{hunt:?}");
        assert_eq!(runs, [(7, true), (8, true), (9, true), (9, false)]);
    }

    #[tokio::test]
    async fn a_server_that_panics_over_a_bug_fails_the_hunt() {
        let (mut hunt, _) = hunted(1).await;
        assert!(hunt.is_good(), "{hunt:?}");
        hunt.found.push((PANICKED, 1));
        assert!(!hunt.is_good(), "{hunt:?}");
    }

    #[test]
    fn whoever_names_no_bug_is_told() {
        assert_eq!(chosen("").unwrap().len(), ALL.len());
        assert_eq!(chosen("stale-status").unwrap().len(), 1);
        assert!(chosen("stale-fence").is_err());
    }

    #[tokio::test]
    async fn a_bug_that_could_not_be_tried_out_is_told_and_was_not_found() {
        let planted = Planted::named("unbounded-renewal").unwrap();
        let order = planted.order(Duration::ZERO, 7).unwrap();
        let hunt = Hunt::of(planted, order, async |_| Err(anyhow::anyhow!("no server"))).await;
        assert!(!hunt.is_good(), "{hunt:?}");
        assert_eq!(hunt.remark(), "COULD NOT BE CARRIED OUT: no server");
    }
}

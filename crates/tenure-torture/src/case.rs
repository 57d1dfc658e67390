//! What the judge has to know besides what the workers wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::outages::Place;
use crate::subject;

/// Its file, beside the histories.
const FILE: &str = "case.json";

/// One run. It stays beside the histories, so that they can be judged again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// The name of the store.
    pub(crate) store: String,
    /// How long an answer is waited for.
    pub(crate) patience: Duration,
    /// Whether those who ask time a lease.
    pub(crate) is_observed: bool,
    /// Whether a release wakes who waits.
    pub(crate) wakes: bool,
    /// On which part of the network each worker was.
    pub(crate) links: BTreeMap<u64, usize>,
    /// When the process that ran it was late, and by how much.
    pub(crate) lags: Vec<(u64, u64)>,
    /// Keys that were still held in the end.
    pub(crate) left: Vec<String>,
    /// Workers that did not end when their time was over.
    pub(crate) stuck: Vec<u64>,
}

impl Case {
    /// Writes it down.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        Ok(fs::write(folder.join(FILE), serde_json::to_vec(self)?)?)
    }

    /// What was written down.
    pub(crate) fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let bytes = fs::read(&path).with_context(|| format!("no run: {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
    }

    /// What its faults were directed at.
    pub(crate) fn place(&self) -> Result<Place> {
        let subject = subject::named(&self.store);
        let subject = subject.with_context(|| format!("no store {:?}", self.store))?;
        Ok(Place { subject, patience: self.patience })
    }
}

#[cfg(test)]
impl Case {
    /// A case for tests, in which nothing was wrong.
    pub(crate) fn sample() -> Self {
        Self {
            store: "redis".to_owned(),
            patience: Duration::from_millis(1500),
            is_observed: false,
            wakes: true,
            links: BTreeMap::from([(1, 0), (2, 1)]),
            lags: vec![(5, 6)],
            left: Vec::new(),
            stuck: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let error = Case::load(folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("case.json"), "{error:#}");
        let case = Case::sample();
        case.save(folder.path()).unwrap();
        assert_eq!(Case::load(folder.path()).unwrap(), case);
        assert_eq!(case.place().unwrap().subject.name, "redis");
        assert!(Case { store: "x".to_owned(), ..case }.place().is_err());
    }
}

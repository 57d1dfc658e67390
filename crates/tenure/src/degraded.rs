//! What to do when the shared store that was asked for is not there.

use std::str::FromStr;

use crate::error::{Error, Operation};

/// What happens when the store cannot be reached at start, or is local to this process although
/// sharing was asked for.
///
/// Once a store is open, its outages are errors whatever the policy: a lock that others may hold is
/// never replaced by a local one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DegradedPolicy {
    /// Opening fails.
    #[default]
    Refuse,
    /// Locks within this process, with a warning at every acquire.
    Warn,
    /// Locks within this process, with a warning once a minute.
    WarnThrottled,
    /// Locks within this process, silently.
    Local,
}

impl FromStr for DegradedPolicy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "refuse" => Ok(Self::Refuse),
            "warn" => Ok(Self::Warn),
            "warn-throttled" => Ok(Self::WarnThrottled),
            "local" => Ok(Self::Local),
            _ => Err(Error::invalid(
                "degraded policy must be one of refuse, warn, warn-throttled, local",
            )
            .during(Operation::Open)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_refused() {
        assert_eq!(
            "warn-throttled".parse::<DegradedPolicy>().unwrap(),
            DegradedPolicy::WarnThrottled
        );
        for unknown in ["", "Refuse", "proceed", "warn_throttled"] {
            assert!(unknown.parse::<DegradedPolicy>().is_err(), "{unknown:?}");
        }
    }
}

//! How a [`Locks`](crate::Locks) behaves, and the relations that must hold between its durations.

use std::time::Duration;

use crate::error::{Error, Operation, Result};
use crate::holder::Holder;
use crate::key::Namespace;
use crate::key_policy::KeyPolicy;
use crate::locks::backoff::Backoff;
use crate::store::Capabilities;

/// The shortest time between two renewals of a lease.
const RENEWAL_MIN: Duration = Duration::from_millis(5);

/// What to do with a ttl or a wait beyond the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Excess {
    /// Refuse the request, naming the limit and the value.
    #[default]
    Refuse,
    /// Use the limit instead; [`Guard::ttl`](crate::Guard::ttl) and
    /// [`LockRequest::effective_ttl`](crate::LockRequest::effective_ttl) tell the value in use.
    Clamp,
}

/// The bounds of what a caller may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest key, in bytes: 512, at most 1024.
    pub key_bytes: usize,
    /// The shortest ttl: 100 ms.
    pub ttl_min: Duration,
    /// The longest ttl: 24 hours.
    pub ttl_max: Duration,
    /// The longest wait. `None`: a request may wait until it is granted.
    pub wait_max: Option<Duration>,
    /// How many may wait for one key in this process: 100 000.
    pub waiters_per_key: usize,
    /// What to do with a ttl or a wait beyond these.
    pub excess: Excess,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            key_bytes: 512,
            ttl_min: Duration::from_millis(100),
            ttl_max: Duration::from_secs(24 * 60 * 60),
            wait_max: None,
            waiters_per_key: 100_000,
            excess: Excess::Refuse,
        }
    }
}

impl Limits {
    /// The ttl to use for one that was asked for.
    pub(crate) fn ttl(&self, asked: Duration) -> Result<Duration> {
        let fitting = asked.clamp(self.ttl_min, self.ttl_max);
        if fitting == asked || self.excess == Excess::Clamp {
            return Ok(fitting);
        }
        Err(Error::invalid(format!(
            "ttl must be {:?} to {:?}, this one is {asked:?}",
            self.ttl_min, self.ttl_max
        )))
    }

    /// The wait to use for one that was asked for; `None` is without end.
    pub(crate) fn wait(&self, asked: Option<Duration>) -> Result<Option<Duration>> {
        match (asked, self.wait_max) {
            (Some(asked), Some(max)) if asked > max && self.excess == Excess::Refuse => {
                Err(Error::invalid(format!("wait must be at most {max:?}, this one is {asked:?}")))
            }
            (Some(asked), Some(max)) => Ok(Some(asked.min(max))),
            (None, max) => Ok(max),
            (asked, None) => Ok(asked),
        }
    }

    fn check(&self) -> Result<()> {
        let key_max = crate::KEY_BYTES_MAX;
        if self.key_bytes == 0 || self.key_bytes > key_max {
            return Err(invalid(format!(
                "limits.key_bytes must be 1 to {key_max}, it is {}",
                self.key_bytes
            )));
        }
        if self.ttl_min.is_zero() || self.ttl_min > self.ttl_max {
            return Err(invalid(format!(
                "0 < ttl_min <= ttl_max must hold, but ttl_min is {:?} and ttl_max is {:?}",
                self.ttl_min, self.ttl_max
            )));
        }
        if self.waiters_per_key == 0 {
            return Err(invalid("limits.waiters_per_key must be at least 1, it is 0".into()));
        }
        Ok(())
    }

    /// These limits, narrowed to what the store can keep.
    pub(crate) fn within(mut self, capabilities: &Capabilities) -> Self {
        self.ttl_min = self.ttl_min.max(capabilities.ttl_min);
        self.ttl_max = self.ttl_max.min(capabilities.ttl_max);
        self
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) namespace: Namespace,
    pub(crate) holder: Holder,
    pub(crate) default_ttl: Duration,
    pub(crate) keep_alive: bool,
    pub(crate) keep_alive_factor: u32,
    pub(crate) operation_timeout: Duration,
    pub(crate) outage_max: Duration,
    pub(crate) poll: Backoff,
    pub(crate) limits: Limits,
    pub(crate) key_policy: KeyPolicy,
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        self.limits.check()?;
        let Limits { ttl_min, ttl_max, .. } = self.limits;
        if self.default_ttl < ttl_min || self.default_ttl > ttl_max {
            return Err(invalid(format!(
                "ttl_min <= default_ttl <= ttl_max must hold, but {ttl_min:?} <= {:?} <= \
                 {ttl_max:?} does not",
                self.default_ttl
            )));
        }
        if self.keep_alive_factor < 2 {
            return Err(invalid(format!(
                "keep_alive_factor must be at least 2, so that ttl / factor leaves time for a \
                 second try before the ttl is over; it is {}",
                self.keep_alive_factor
            )));
        }
        let most_often = ttl_min / self.keep_alive_factor;
        if self.keep_alive && most_often < RENEWAL_MIN {
            return Err(invalid(format!(
                "ttl_min / keep_alive_factor >= {RENEWAL_MIN:?} must hold, but {ttl_min:?} / {} \
                 is {most_often:?}",
                self.keep_alive_factor
            )));
        }
        if self.operation_timeout.is_zero() || self.operation_timeout >= self.default_ttl {
            return Err(invalid(format!(
                "0 < operation_timeout < default_ttl must hold, but {:?} < {:?} does not: a \
                 grant would be over before its answer is given up on",
                self.operation_timeout, self.default_ttl
            )));
        }
        self.poll.check()
    }
}

pub(crate) fn invalid(message: String) -> Error {
    Error::invalid(message).during(Operation::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_refuse_or_clamp() {
        let mut limits = Limits { wait_max: Some(Duration::from_secs(5)), ..Limits::default() };
        let text = limits.ttl(Duration::from_millis(5)).unwrap_err().to_string();
        assert!(text.contains("100ms") && text.contains("5ms"), "{text}");
        assert!(limits.wait(Some(Duration::from_secs(6))).is_err());
        limits.excess = Excess::Clamp;
        assert_eq!(limits.ttl(Duration::from_millis(5)).unwrap(), limits.ttl_min);
        assert_eq!(limits.ttl(Duration::MAX).unwrap(), limits.ttl_max);
        assert_eq!(limits.wait(Some(Duration::MAX)).unwrap(), limits.wait_max);
        assert_eq!(limits.wait(None).unwrap(), limits.wait_max);
    }
}

//! The deadline: how long a call may take, waiting included.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value};
use tenure::clock::{Clock, Moment};
use tenure_api::{ForrstCode, rfc3339};

use crate::amount::Amount;
use crate::fault::Fault;
use crate::pointer::Pointer;

/// The longest time that a call may take, whatever it asks for.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// When a call must have ended.
#[derive(Clone, Debug)]
pub(crate) enum DeadlineOptions {
    /// So long after it came.
    After(Amount),
    /// The same, as the reference writes it.
    Timeout(Amount),
    /// At this time of day, as this machine's clock has it.
    At(SystemTime, String),
}

/// A deadline that runs.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    options: DeadlineOptions,
    began: Moment,
    pub(crate) ends: Moment,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Specified<'a> {
    After(&'a Amount),
    At { value: &'a str, unit: &'static str },
}

/// What is left of a deadline.
#[cfg(feature = "gateway")]
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Shorter {
    After(Amount),
    Timeout { timeout: Amount },
}

#[derive(Serialize)]
pub(crate) struct DeadlineData<'a> {
    specified: Specified<'a>,
    elapsed: Amount,
    remaining: Amount,
    utilization: f64,
}

#[derive(Serialize)]
struct Exceeded<'a> {
    deadline: Specified<'a>,
    elapsed: Amount,
}

impl DeadlineOptions {
    /// Reads `{value, unit}`, and the reference's `{timeout: {value, unit}}` and `{deadline:
    /// time}`.
    pub(crate) fn read(options: &Map<String, Value>, at: Pointer<'_>) -> Result<Self, Fault> {
        let time = |text: &str, member: &str| {
            let wrong = || {
                let text = "deadline must be a time like 2026-11-01T12:00:00Z";
                Fault::argument(at.member(member), text)
            };
            Ok(Self::At(rfc3339::parse(text).ok_or_else(wrong)?, text.to_owned()))
        };
        if let Some(Value::String(text)) = options.get("deadline") {
            return time(text, "deadline");
        }
        if let Some(timeout) = options.get("timeout") {
            let (at, timeout) = (at.member("timeout"), timeout.as_object());
            let timeout = Amount::read_up_to(Duration::MAX, timeout, "timeout", at)?;
            return Ok(Self::Timeout(timeout));
        }
        match (options.get("unit").and_then(Value::as_str), options.get("value")) {
            (Some("iso8601"), Some(Value::String(text))) => time(text, "value"),
            _ => {
                let after = Amount::read_up_to(Duration::MAX, Some(options), "deadline", at)?;
                Ok(Self::After(after))
            }
        }
    }

    /// Begins to run.
    pub(crate) fn begin(self, began: Moment, clock: &dyn Clock) -> Deadline {
        let ends = match &self {
            Self::After(amount) | Self::Timeout(amount) => began + amount.duration().min(LONGEST),
            Self::At(at, _) => {
                clock.now() + at.duration_since(clock.wall()).unwrap_or_default().min(LONGEST)
            }
        };
        Deadline { options: self, began, ends }
    }

    /// The same options for so long, in the words that they came in; none, where they are as good
    /// as they are.
    #[cfg(feature = "gateway")]
    pub(crate) fn shorter(&self, remaining: Duration) -> Option<Shorter> {
        // Nothing left would be no deadline.
        let left = Amount::milliseconds(remaining.max(Duration::from_millis(1)));
        match self {
            Self::After(_) => Some(Shorter::After(left)),
            Self::Timeout(_) => Some(Shorter::Timeout { timeout: left }),
            Self::At(..) => None,
        }
    }

    fn specified(&self) -> Specified<'_> {
        match self {
            Self::After(amount) | Self::Timeout(amount) => Specified::After(amount),
            Self::At(_, text) => Specified::At { value: text, unit: "iso8601" },
        }
    }
}

impl Deadline {
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        self.ends.since(now)
    }

    pub(crate) fn exceeded(&self, now: Moment) -> Fault {
        let elapsed = Amount::milliseconds(now.since(self.began));
        let details = Exceeded { deadline: self.options.specified(), elapsed };
        Fault::new(ForrstCode::DeadlineExceeded, "Request deadline exceeded").with(details)
    }

    pub(crate) fn data(&self, now: Moment) -> DeadlineData<'_> {
        let (elapsed, whole) = (now.since(self.began), self.ends.since(self.began));
        let utilization = (elapsed.as_secs_f64() / whole.as_secs_f64().max(0.001)).min(1.0);
        DeadlineData {
            specified: self.options.specified(),
            elapsed: Amount::milliseconds(elapsed),
            remaining: Amount::milliseconds(self.remaining(now)),
            utilization: (utilization * 1000.0).round() / 1000.0,
        }
    }
}

//! Amounts of time as the protocol writes them: a value and a unit.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::pointer::Pointer;

/// The longest ttl and the longest wait, as the reference has them.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// An amount of time as it was asked for, to be told again in the same words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Amount {
    pub(crate) value: u64,
    pub(crate) unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
}

impl Unit {
    const ALL: [Self; 5] = [Self::Millisecond, Self::Second, Self::Minute, Self::Hour, Self::Day];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Millisecond => "millisecond",
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    const fn milliseconds(self) -> u64 {
        match self {
            Self::Millisecond => 1,
            Self::Second => 1000,
            Self::Minute => 60 * 1000,
            Self::Hour => 60 * 60 * 1000,
            Self::Day => 24 * 60 * 60 * 1000,
        }
    }
}

impl Amount {
    /// So many milliseconds, rounded down.
    pub(crate) fn milliseconds(duration: Duration) -> Self {
        let value = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { value, unit: Unit::Millisecond }
    }

    /// Reads `{"value": 30, "unit": "second"}`, which stands there. `what` is its name in
    /// words. It is positive, and a day at the most.
    pub(crate) fn read(json: &Value, what: &str, at: Pointer<'_>) -> Result<Self, Fault> {
        Self::read_up_to(LONGEST, json.as_object(), what, at)
    }

    /// As [`read`](Self::read), with another bound.
    pub(crate) fn read_up_to(
        longest: Duration,
        json: Option<&Map<String, Value>>,
        what: &str,
        at: Pointer<'_>,
    ) -> Result<Self, Fault> {
        let Some(object) = json else {
            let text = format!("{what} must be an object with value and unit");
            return Err(Fault::argument(at, text));
        };
        let unit = Self::unit(object.get("unit"), what, at)?;
        let value = match object.get("value") {
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.parse().ok(),
            _ => None,
        };
        let at = at.member("value");
        let Some(value) = value else {
            return Err(Fault::argument(at, format!("{what} needs a whole number as value")));
        };
        let Some(value) = u64::try_from(value).ok().filter(|value| *value > 0) else {
            return Err(Fault::argument(at, format!("{what} must be positive")));
        };
        let amount = Self { value, unit };
        if amount.duration() > longest {
            let (asked, longest) = (amount.duration().as_secs(), longest.as_secs());
            let text =
                format!("{what} of {asked} seconds exceeds maximum allowed {longest} seconds");
            return Err(Fault::argument(at, text));
        }
        Ok(amount)
    }

    fn unit(json: Option<&Value>, what: &str, at: Pointer<'_>) -> Result<Unit, Fault> {
        let named = match json {
            None => return Ok(Unit::Second),
            Some(Value::String(name)) => Unit::ALL.into_iter().find(|unit| unit.name() == name),
            Some(_) => None,
        };
        named.ok_or_else(|| {
            let text = format!("{what} needs a unit: millisecond, second, minute, hour or day");
            Fault::argument(at.member("unit"), text)
        })
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.value.saturating_mul(self.unit.milliseconds()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: Value) -> Result<Duration, String> {
        let amount = Amount::read(&json, "ttl", Pointer::Root.member("x")).map_err(|fault| {
            assert_eq!(fault.code(), "INVALID_ARGUMENTS");
            serde_json::to_value(&fault).unwrap()["source"]["pointer"].to_string()
        })?;
        Ok(amount.duration())
    }

    #[test]
    fn every_unit_is_read() {
        for (unit, seconds) in [("second", 2), ("minute", 120), ("hour", 7200)] {
            let read = read(json!({"value": 2, "unit": unit}));
            assert_eq!(read, Ok(Duration::from_secs(seconds)));
        }
        let day = read(json!({"value": 1, "unit": "day"}));
        assert_eq!(day, Ok(Duration::from_secs(86_400)));
        let ms = read(json!({"value": 1500, "unit": "millisecond"}));
        assert_eq!(ms, Ok(Duration::from_millis(1500)));
        assert_eq!(read(json!({"value": "30"})), Ok(Duration::from_secs(30)));
    }

    #[test]
    fn what_is_no_amount_is_pointed_at() {
        for (json, pointer) in [
            (json!(30), r#""/x""#),
            (json!({"unit": "second"}), r#""/x/value""#),
            (json!({"value": 0, "unit": "second"}), r#""/x/value""#),
            (json!({"value": -5, "unit": "second"}), r#""/x/value""#),
            (json!({"value": 1.5, "unit": "second"}), r#""/x/value""#),
            (json!({"value": "soon", "unit": "second"}), r#""/x/value""#),
            (json!({"value": 2, "unit": "day"}), r#""/x/value""#),
            (json!({"value": i64::MAX, "unit": "day"}), r#""/x/value""#),
            (json!({"value": 1, "unit": "fortnight"}), r#""/x/unit""#),
            (json!({"value": 1, "unit": 7}), r#""/x/unit""#),
        ] {
            assert_eq!(read(json.clone()), Err(pointer.to_owned()), "{json}");
        }
    }
}

//! Guidance on whether to try again, for whoever asks for it.

use serde::Serialize;
use tenure_api::ForrstCode;

use super::Kind;
use crate::amount::{Amount, Unit};
use crate::fault::Fault;
use crate::request::Asked;
use crate::response::{Response, Told};

#[derive(Debug, Serialize)]
struct Guidance {
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
}

/// Tells beside an error whether to try again, if that was asked for: errors have no such thing
/// beside them in the examples of the lock's specification, where nobody asked.
pub(crate) fn advise(asked: &[Asked<'_>], response: &mut Response) {
    let asked = asked.iter().find(|asked| asked.kind == Some(Kind::Retry));
    if let (Some(asked), Err(faults)) = (asked, &response.outcome)
        && let [fault] = faults.as_slice()
    {
        response.extensions.push(Told::new(&asked.urn, &Guidance::after(fault)));
    }
}

impl Guidance {
    /// What to do after this error.
    fn after(fault: &Fault) -> Self {
        let (strategy, seconds, attempts) = match fault.known() {
            Some(ForrstCode::RateLimited) => ("fixed", Some(60), 3),
            Some(ForrstCode::Unavailable) => ("exponential", Some(1), 5),
            Some(ForrstCode::DeadlineExceeded) => ("immediate", None, 1),
            Some(ForrstCode::InternalError) => ("exponential", Some(1), 3),
            Some(ForrstCode::DependencyError) => ("exponential", Some(2), 3),
            Some(ForrstCode::IdempotencyProcessing) => ("fixed", Some(1), 3),
            Some(ForrstCode::ServerMaintenance | ForrstCode::FunctionMaintenance) => {
                ("fixed", Some(60), 1)
            }
            Some(ForrstCode::FunctionDisabled) => ("fixed", Some(30), 2),
            // Not in the specification's table. Whoever has waited already stands in line again
            // at once; whoever has not comes back later each time.
            Some(ForrstCode::LockTimeout) => ("fixed", Some(1), 3),
            Some(ForrstCode::LockAcquisitionFailed) => ("exponential", Some(1), 5),
            _ => return Self { allowed: false, strategy: None, after: None, max_attempts: None },
        };
        let after = seconds.map(|value| Amount { value, unit: Unit::Second });
        Self { allowed: true, strategy: Some(strategy), after, max_attempts: Some(attempts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the specification, and the two codes of locks behind it.
    const TABLE: &str = "
        RATE_LIMITED fixed 60 3
        UNAVAILABLE exponential 1 5
        DEADLINE_EXCEEDED immediate - 1
        INTERNAL_ERROR exponential 1 3
        DEPENDENCY_ERROR exponential 2 3
        IDEMPOTENCY_PROCESSING fixed 1 3
        SERVER_MAINTENANCE fixed 60 1
        FUNCTION_MAINTENANCE fixed 60 1
        FUNCTION_DISABLED fixed 30 2
        LOCK_ACQUISITION_FAILED exponential 1 5
        LOCK_TIMEOUT fixed 1 3
    ";

    fn row(code: ForrstCode) -> Option<String> {
        let Guidance { allowed, strategy, after, max_attempts } =
            Guidance::after(&Fault::new(code, "text"));
        assert_eq!(allowed, code.fault().retryable, "{code}");
        let after = after.map_or("-".to_owned(), |after| after.duration().as_secs().to_string());
        Some(format!("{code} {} {after} {}", strategy?, max_attempts?))
    }

    #[test]
    fn every_code_that_is_worth_another_try_has_its_row() {
        let mut expected: Vec<_> =
            TABLE.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        expected.sort_unstable();
        let mut rows: Vec<_> = ForrstCode::ALL.into_iter().filter_map(row).collect();
        rows.sort_unstable();
        assert_eq!(rows, expected);
    }
}

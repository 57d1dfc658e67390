//! Guidance on whether to try again, for whoever asks for it.

use serde::Serialize;
use tenure_api::ForrstCode;

use crate::amount::{Amount, Unit};
use crate::fault::Fault;

#[derive(Debug, Serialize)]
pub(crate) struct Guidance {
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
}

impl Guidance {
    /// What to do after this error.
    pub(crate) fn after(fault: &Fault) -> Self {
        let code = fault.known();
        if !code.is_some_and(|code| code.fault().retryable) {
            return Self { allowed: false, strategy: None, after: None, max_attempts: None };
        }
        // Whoever has waited already stands in line again at once; whoever has not comes back
        // later each time.
        let (strategy, value, attempts) = match code {
            Some(ForrstCode::LockTimeout) => ("fixed", 1, 3),
            _ => ("exponential", 1, 5),
        };
        let after = Some(Amount { value, unit: Unit::Second });
        Self { allowed: true, strategy: Some(strategy), after, max_attempts: Some(attempts) }
    }
}

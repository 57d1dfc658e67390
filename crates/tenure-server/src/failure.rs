//! What went wrong, for every surface alike.

use std::fmt;

use tenure::ErrorKind;
use tenure::error::Chain;
use tenure_api::Code;

/// A failed call: its code, and what to tell the caller.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What went wrong.
    pub code: Code,
    /// In words, without any secret.
    pub message: String,
}

impl Failure {
    /// A failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A request that is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<tenure::Error> for Failure {
    fn from(error: tenure::Error) -> Self {
        let code = code_of(error.kind());
        if code != Code::TimedOut && code.fault().http >= 500 {
            tracing::warn!(%code, error = %Chain(&error), "the store failed");
        }
        Self::new(code, error.to_string())
    }
}

/// The code of an error of the library.
#[must_use]
pub(crate) fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Held => Code::Held,
        ErrorKind::TimedOut => Code::TimedOut,
        ErrorKind::Lost => Code::Lost,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::WrongOwner => Code::WrongOwner,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Unknown => Code::Unknown,
        ErrorKind::Invalid => Code::Invalid,
        ErrorKind::Unsupported => Code::Unsupported,
        ErrorKind::Denied => Code::StoreDenied,
        ErrorKind::Mismatch => Code::Mismatch,
        ErrorKind::Damaged => Code::Damaged,
        // A kind that this table does not know yet.
        _ => Code::Internal,
    }
}

/// What a reader of JSON or TOML finds wrong with a value, without the value: it may be a secret.
pub(crate) fn without_values(text: &str) -> String {
    match text.rsplit_once("expected ") {
        Some((found, expected))
            if found.starts_with("invalid") || found.starts_with("unknown variant") =>
        {
            format!("expected {expected}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_without_its_value() {
        for (text, told) in [
            ("invalid type: string \"s3cret\", expected a map", "expected a map"),
            ("invalid value: integer `7`, expected u16", "expected u16"),
            ("unknown variant `s3cret`, expected `a` or `b`", "expected `a` or `b`"),
            ("unknown field `x`, expected `y`", "unknown field `x`, expected `y`"),
            ("missing field `url`", "missing field `url`"),
        ] {
            assert_eq!(without_values(text), told);
        }
    }
}

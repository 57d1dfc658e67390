//! What was found out about a store, for the person who runs it.

use std::borrow::Cow;
use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Note,
    /// It works, and could work better or more safely.
    Warning,
    /// It lowers the store to [`Class::Efficiency`](crate::store::Class::Efficiency).
    Lowering,
    /// It cannot be used like this.
    Refusal,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Lowering => "lowers the class",
            Self::Refusal => "refused",
        })
    }
}

/// One thing that was found out about a store, from its live configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about, in the store's own word: `maxmemory-policy`, `synchronous_commit`.
    pub topic: Cow<'static, str>,
    /// What is so and what follows from it, in one sentence.
    pub text: String,
    /// What to do about it, where something can be done.
    pub remedy: Option<String>,
}

impl Finding {
    /// Something good to know.
    #[must_use]
    pub fn note(topic: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        let (topic, text) = (topic.into(), text.into());
        Self { severity: Severity::Note, topic, text, remedy: None }
    }

    /// Something that could be better.
    #[must_use]
    pub fn warning(topic: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::note(topic, text) }
    }

    /// Something that makes a lost grant possible.
    #[must_use]
    pub fn lowering(topic: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { severity: Severity::Lowering, ..Self::note(topic, text) }
    }

    /// Something that forbids the use.
    #[must_use]
    pub fn refusal(topic: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { severity: Severity::Refusal, ..Self::note(topic, text) }
    }

    /// That leases end by the wall clock of `host`.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn wall_clock(host: &str) -> Self {
        let text = format!(
            "leases end by the wall clock of {host}: setting it forward ends them early, and only \
             fences protect then"
        );
        let remedy = "let NTP slew it rather than step it, and by less than 1 % against the clocks \
                      of the clients: with chrony, maxslewrate 5000 on all of these machines";
        Self::note("clock", text).remedy(remedy)
    }

    /// This finding with what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.topic, self.text)?;
        match &self.remedy {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

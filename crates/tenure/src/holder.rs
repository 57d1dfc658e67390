//! The label that tells people who holds a lock.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::random::Random;

const BYTES_MAX: usize = 1024;

/// A readable label of whoever holds a lease: host, process and a note. Data, not a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder(Arc<str>);

impl Holder {
    /// A label of up to 1024 bytes without control characters.
    ///
    /// # Errors
    /// `Invalid` when it is longer or contains control characters.
    pub fn new(label: &str) -> Result<Self> {
        if label.len() > BYTES_MAX {
            return Err(Error::invalid(format!(
                "holder must have at most {BYTES_MAX} bytes, this one has {}",
                label.len()
            )));
        }
        if label.chars().any(char::is_control) {
            return Err(Error::invalid("holder must not contain control characters"));
        }
        Ok(Self(label.into()))
    }

    /// This process: `host/pid`.
    #[must_use]
    pub fn this_process() -> Self {
        let host = host_name().unwrap_or_else(|| "unknown-host".into());
        Self(format!("{host}/{}", std::process::id()).into())
    }

    /// This label with a note behind it.
    ///
    /// # Errors
    /// `Invalid` when the whole would be too long or contain control characters.
    pub fn with_note(&self, note: &str) -> Result<Self> {
        Self::new(&format!("{} {note}", self.0))
    }

    /// This label with a mark behind it that no other has.
    ///
    /// # Errors
    /// `Invalid` when the whole would be too long, `Unavailable` without randomness.
    pub(crate) fn marked(&self, random: &dyn Random) -> Result<Self> {
        let mut bytes = [0; 8];
        if !random.fill(&mut bytes) {
            return Err(Error::unavailable("the operating system gave no random bytes"));
        }
        Self::new(&format!("{}#{:016x}", self.0, u64::from_le_bytes(bytes)))
    }

    /// The label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn host_name() -> Option<String> {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = from_kernel.or_else(|| std::env::var("HOSTNAME").ok())?;
    let name = name.trim();
    (!name.is_empty() && !name.chars().any(char::is_control)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_note_stands_behind_host_and_pid() {
        let label = Holder::this_process().with_note("nightly import").unwrap();
        assert!(label.as_str().contains(&format!("/{} ", std::process::id())));
        assert!(label.as_str().ends_with(" nightly import"));
    }

    #[test]
    fn a_mark_is_new_every_time() {
        let label = Holder::new("host/7").unwrap();
        let [one, two] = [(); 2].map(|()| label.marked(&SystemRandom).unwrap());
        assert!(one.as_str().starts_with("host/7#") && one != two, "{one} {two}");
    }

    #[test]
    fn bad_labels_are_refused() {
        assert!(Holder::new(&"x".repeat(1025)).unwrap_err().to_string().contains("1025"));
        assert!(Holder::new("a\u{1b}[31m").is_err());
    }
}

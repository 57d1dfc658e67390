//! One line of a history.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure::clock::{Clock, SystemClock};
use tenure::{Error, ErrorKind, Retry};

/// What one worker did, or what was done to it, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Who: a number that no other worker of the history has.
    #[serde(rename = "w")]
    pub worker: u64,
    /// Which of the worker's claims this is about; 0 where it is about none.
    #[serde(rename = "c", default, skip_serializing_if = "is_zero")]
    pub claim: u64,
    /// The key; empty where this is about none.
    #[serde(rename = "k", default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// When, in nanoseconds on the boot clock.
    #[serde(rename = "t")]
    pub at: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What happened. Questions carry the moment before they were put, answers the one after they came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum What {
    /// The key is about to be asked for.
    Asked {
        /// The ttl of the lease, in nanoseconds.
        ttl: u64,
        /// How long to wait, in nanoseconds; without end, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait: Option<u64>,
    },
    /// It was granted.
    Granted {
        /// Under this fence.
        fence: u64,
    },
    /// It was held by another, now or until the wait was over.
    Held,
    /// The claim was answered with an error.
    Failed {
        /// The kind of the error.
        kind: String,
        /// Whether the key may have been granted all the same.
        unknown: bool,
    },
    /// The guard was asked at this moment, and said that it holds.
    Believed,
    /// The lease is about to be given back.
    ReleaseAsked,
    /// It was given back.
    Released,
    /// It was not this worker's any more.
    Lost,
    /// The release was answered with an error: nobody knows whether it was made.
    ReleaseFailed {
        /// The kind of the error.
        kind: String,
    },
    /// The guard is let go without waiting for the release.
    Dropped,
    /// The key is about to be taken from whoever holds it under this fence.
    Forced {
        /// The fence of the lease that is ended.
        fence: u64,
    },
    /// A fenced sink took a write; the moment is one at which the sink was locked.
    Accepted {
        /// The fence of the write.
        fence: u64,
    },
    /// A fenced sink refused a write as stale; the moment is one at which the sink was locked.
    Refused {
        /// The fence of the write.
        fence: u64,
    },
    /// A resource that does not check was written.
    Unfenced {
        /// The fence of the write.
        fence: u64,
        /// The fence of the write before it.
        over: u64,
    },
    /// The worker is about to be killed, or has ended by itself without a word.
    Killed,
    /// The worker is about to be stopped.
    Paused,
    /// The worker was told to go on.
    Resumed,
}

impl What {
    /// How a claim ended that was answered with this error.
    #[must_use]
    pub fn refusal(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Held | ErrorKind::TimedOut => Self::Held,
            kind => {
                let unknown = error.retry() == Retry::Unknown;
                Self::Failed { kind: format!("{kind:?}"), unknown }
            }
        }
    }
}

/// Writes a worker's history, line by line.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    worker: u64,
}

impl Recorder {
    /// A recorder that appends to the file at `path`, which it makes if it is not there.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn append(path: &Path, worker: u64) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(path)?, worker })
    }

    /// Writes that this happened now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note(&mut self, claim: u64, key: &str, what: What) -> io::Result<()> {
        self.note_at(SystemClock.now().as_nanos(), claim, key, what)
    }

    /// Writes that this happened at that moment. A worker that is killed meanwhile leaves no more
    /// than one torn line.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note_at(&mut self, at: u64, claim: u64, key: &str, what: What) -> io::Result<()> {
        self.write(&Record { worker: self.worker, claim, key: key.to_owned(), at, what })
    }

    /// Writes a record as it is, of whichever worker.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

/// The records of one file, and how many lines were torn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// What could be read, in the order of the file.
    pub records: Vec<Record>,
    /// How many last lines were cut off by a kill.
    pub torn: usize,
}

/// Reads what a [`Recorder`] wrote. A last line without an end is torn, and counted.
///
/// # Errors
/// `InvalidData` for a whole line that is no record; it names the line.
pub fn read(bytes: &[u8]) -> io::Result<Read> {
    let mut read = Read::default();
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(whole) = line.strip_suffix(b"\n") else {
            read.torn += 1;
            break;
        };
        let record = serde_json::from_slice(whole).map_err(|error| {
            let text = format!("line {}: {error}", number + 1);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        read.records.push(record);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: What) -> Record {
        Record { worker: 3, claim: 7, key: "k1".into(), at: u64::MAX, what }
    }

    #[test]
    fn every_record_comes_back_as_it_was() {
        for what in [
            What::Asked { ttl: 5, wait: None },
            What::Asked { ttl: 5, wait: Some(0) },
            What::Granted { fence: u64::MAX },
            What::Held,
            What::Failed { kind: "Unknown".into(), unknown: true },
            What::Unfenced { fence: 1, over: 2 },
            What::Killed,
        ] {
            let mut line = serde_json::to_vec(&record(what.clone())).unwrap();
            line.push(b'\n');
            assert_eq!(read(&line).unwrap().records, [record(what)]);
        }
    }

    #[test]
    fn a_line_is_compact() {
        let line = serde_json::to_string(&record(What::Granted { fence: 9 })).unwrap();
        let whole = r#"{"w":3,"c":7,"k":"k1","t":18446744073709551615,"is":"granted","fence":9}"#;
        assert_eq!(line, whole);
    }

    #[test]
    fn a_torn_last_line_is_counted_and_any_other_is_an_error() {
        let text = b"{\"w\":1,\"t\":5,\"is\":\"killed\"}\n{\"w\":1,\"t";
        let found = read(text).unwrap();
        assert_eq!((found.records.len(), found.torn), (1, 1));
        let error = read(b"{\"w\":1,\"t\n{\"w\":1,\"t\":5,\"is\":\"killed\"}\n").unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
        assert_eq!(read(b"").unwrap(), Read::default());
    }

    #[test]
    fn only_contention_is_a_refusal() {
        let what = |kind| What::refusal(&Error::new(kind, "x"));
        assert_eq!(what(ErrorKind::Held), What::Held);
        assert_eq!(what(ErrorKind::TimedOut), What::Held);
        let failed = |kind: &str, unknown| What::Failed { kind: kind.into(), unknown };
        assert_eq!(what(ErrorKind::Unavailable), failed("Unavailable", false));
        assert_eq!(what(ErrorKind::Unknown), failed("Unknown", true));
    }
}

//! The folder that the workers share: their histories, the sinks, and what does not check.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tenure::clock::{Clock, Moment, SystemClock};
use tenure_check::record::{Read as Records, read};
use tenure_check::sink::{Offered, offer};
use tenure_check::{Record, What};

/// How often to try for a sink that another has locked, a millisecond apart.
const TRIES: usize = 20;

/// How much of a sink's journal is read to find its last line.
const TAIL: u64 = 1024;

/// Makes a folder for this user alone.
pub(super) fn create(name: &str) -> io::Result<PathBuf> {
    let path = std::env::temp_dir().join(name);
    DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

/// Where a worker's history is.
pub(super) fn history(folder: &Path, worker: u64) -> PathBuf {
    folder.join(format!("worker-{worker}.jsonl"))
}

/// Where a worker says why it gave up.
pub(super) fn complaint(folder: &Path, worker: u64) -> PathBuf {
    folder.join(format!("worker-{worker}.failed"))
}

/// All records of all files.
pub(super) fn read_all(folder: &Path) -> io::Result<Records> {
    let mut all = Records::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let found = read(&fs::read(&path)?)?;
            all.records.extend(found.records);
            all.torn += found.torn;
        }
    }
    Ok(all)
}

/// Offers a write to the key's fenced sink. `None` when another has had it locked for too long,
/// because it was stopped just then.
///
/// What the sink took is in its journal, and nowhere else: whoever is killed after the write has
/// been recorded, and whoever is killed before has not written.
pub(super) async fn write_fenced(
    folder: &Path,
    worker: u64,
    key: &str,
    fence: u64,
) -> io::Result<Option<(Moment, Offered)>> {
    let path = folder.join(format!("sink-{key}.jsonl"));
    let mut journal = OpenOptions::new().create(true).read(true).append(true).open(path)?;
    if !lock(&journal).await {
        return Ok(None);
    }
    let now = SystemClock.now();
    let offered = offer(highest(&mut journal)?, fence);
    if offered == Offered::Accepted {
        let what = What::Accepted { fence };
        let record = Record { worker, claim: 0, key: key.to_owned(), at: now.as_nanos(), what };
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        journal.write_all(&line)?;
    }
    Ok(Some((now, offered)))
}

async fn lock(file: &File) -> bool {
    for _ in 0..TRIES {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(1)).await;
    }
    false
}

/// The fence of the last write: no sink takes a smaller one.
fn highest(journal: &mut File) -> io::Result<u64> {
    let length = journal.metadata()?.len();
    journal.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    journal.read_to_end(&mut tail)?;
    let last = tail.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty());
    let Some(last) = last else { return Ok(0) };
    match serde_json::from_slice(last)? {
        Record { what: What::Accepted { fence }, .. } => Ok(fence),
        record => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{record:?}"))),
    }
}

/// Adds one to the key's counter, which checks nothing; says the fence of the write before.
pub(super) fn write_unfenced(folder: &Path, key: &str, fence: u64) -> io::Result<u64> {
    let path = folder.join(format!("counter-{key}"));
    let text = fs::read_to_string(&path).unwrap_or_default();
    // Two at once may leave anything here: that is what it is for.
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (count, over) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    fs::write(&path, format!("{} {fence}\n", count + 1))?;
    Ok(over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fenced_sink_refuses_what_is_stale_and_the_other_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for (fence, offered, over) in [
            (5, Offered::Accepted, 0),
            (5, Offered::Accepted, 5),
            (7, Offered::Accepted, 5),
            (6, Offered::Refused { highest: 7 }, 7),
        ] {
            let (_, found) = write_fenced(path, 1, "k", fence).await.unwrap().unwrap();
            assert_eq!(found, offered);
            assert_eq!(write_unfenced(path, "k", fence).unwrap(), over);
        }
        assert_eq!(read_all(path).unwrap().records.len(), 3);
    }

    #[tokio::test]
    async fn a_sink_that_stays_locked_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        write_fenced(path, 1, "k", 1).await.unwrap().unwrap();
        let other = File::open(path.join("sink-k.jsonl")).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        assert_eq!(write_fenced(path, 1, "k", 2).await.unwrap(), None);
    }
}

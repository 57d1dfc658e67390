//! A resource that checks the fence, in a process of its own, and beside it a counter that does
//! not: the negative control.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tenure::clock::{Clock, SystemClock};
use tenure_check::sink::{Offered, Sink};
use tenure_check::{Record, Recorder, What};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;

use crate::{job, tether};

/// The first word of the sink's command line.
pub(crate) const ROLE: &str = "--torture-sink";

/// What the sink is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SinkJob {
    pub(crate) parent: i32,
    pub(crate) folder: PathBuf,
}

/// Is the sink, if this process was started as one.
pub(crate) fn part() -> Option<ExitCode> {
    let job = tether::job::<SinkJob>(ROLE)?;
    Some(tether::exit(&job.and_then(|job| {
        tether::hold_to(job.parent)?;
        Builder::new_current_thread().enable_all().build()?.block_on(serve(&job.folder))
    })))
}

/// Everything that was ever written.
struct Resource {
    fenced: Sink,
    /// The fence of the last write to each key, whatever it was.
    unfenced: HashMap<String, u64>,
    log: Recorder,
}

impl Resource {
    /// Takes a write or refuses it, and writes down which.
    fn write(&mut self, worker: u64, key: &str, fence: u64) -> io::Result<Offered> {
        let at = SystemClock.now().as_nanos();
        let offered = self.fenced.offer(key, fence);
        let what = match offered {
            Offered::Accepted => What::Accepted { fence },
            Offered::Refused { .. } => What::Refused { fence },
        };
        let over = self.unfenced.insert(key.to_owned(), fence).unwrap_or(0);
        for what in [what, What::Unfenced { fence, over }] {
            self.log.write(&Record { worker, claim: 0, key: key.to_owned(), at, what })?;
        }
        Ok(offered)
    }
}

async fn serve(folder: &Path) -> Result<()> {
    let listener = UnixListener::bind(job::sink(folder))?;
    let log = Recorder::append(&job::history(folder, 0), 0)?;
    let resource = Resource { fenced: Sink::default(), unfenced: HashMap::new(), log };
    let resource = Arc::new(Mutex::new(resource));
    loop {
        let (stream, _) = listener.accept().await?;
        let resource = Arc::clone(&resource);
        // A writer that was killed ends its connection, and nothing else.
        tokio::spawn(async move { drop(attend(stream, &resource).await) });
    }
}

async fn attend(mut stream: UnixStream, resource: &Mutex<Resource>) -> Result<()> {
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let mut words = line.split(' ');
        let mut next = || words.next().context("too few words");
        let (worker, key, fence) = (next()?.parse()?, next()?, next()?.parse()?);
        let offered = {
            let mut resource = resource.lock().unwrap_or_else(PoisonError::into_inner);
            resource.write(worker, key, fence)?
        };
        let answer: &[u8] = if offered == Offered::Accepted { b"taken\n" } else { b"stale\n" };
        writer.write_all(answer).await?;
    }
    Ok(())
}

/// A worker's way to the sink.
#[derive(Debug)]
pub(crate) struct Client(tokio::sync::Mutex<BufReader<UnixStream>>);

impl Client {
    /// Connects to the sink of this run.
    pub(crate) async fn connect(folder: &Path) -> Result<Self> {
        let stream = UnixStream::connect(job::sink(folder)).await?;
        Ok(Self(tokio::sync::Mutex::new(BufReader::new(stream))))
    }

    /// Writes under a fence, without a look at any guard.
    pub(crate) async fn write(&self, worker: u64, key: &str, fence: u64) -> Result<()> {
        let mut stream = self.0.lock().await;
        stream.write_all(format!("{worker} {key} {fence}\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await?;
        ensure!(answer.ends_with('\n'), "the sink has gone");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fenced_one_refuses_what_is_stale_and_the_other_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = Recorder::append(&job::history(folder.path(), 0), 0).unwrap();
        let fenced = Sink::default();
        let mut resource = Resource { fenced, unfenced: HashMap::new(), log };
        assert_eq!(resource.write(1, "k", 5).unwrap(), Offered::Accepted);
        assert_eq!(resource.write(2, "k", 7).unwrap(), Offered::Accepted);
        assert_eq!(resource.write(1, "k", 5).unwrap(), Offered::Refused { highest: 7 });
        let text = std::fs::read(job::history(folder.path(), 0)).unwrap();
        let records = tenure_check::record::read(&text).unwrap().records;
        let last = &records[records.len() - 1];
        assert_eq!(last.what, What::Unfenced { fence: 5, over: 7 });
    }
}

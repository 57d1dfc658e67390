//! What the kernel says of this machine and this process.

use std::fs::read_to_string;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// What all figures depend on. Nothing that tells whose machine it is.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    /// The kind of file system that all files are on, those of the servers too.
    pub(crate) files: String,
    /// How many processes wanted to run, on average, in the minute before.
    pub(crate) load: String,
}

impl Machine {
    pub(crate) fn here() -> Result<Self> {
        let load = read_to_string("/proc/loadavg")?;
        let cpus = read_to_string("/proc/cpuinfo")?;
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let memory = read_to_string("/proc/meminfo")?;
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total = total.and_then(|rest| rest.trim().strip_suffix(" kB"));
        let kib: f64 = total.context("no MemTotal line")?.parse()?;
        let files = file_system(&std::env::temp_dir())?;
        Ok(Self {
            processor: model.map_or("unknown processor", |(_, model)| model).to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory: format!("{:.0} GiB", kib / f64::from(1 << 20)),
            kernel: format!("Linux {}", read_to_string("/proc/sys/kernel/osrelease")?.trim()),
            files,
            load: load.split(' ').next().unwrap_or("?").to_owned(),
        })
    }

    /// One line of all, for the terminal: it also says where the files are.
    pub(crate) fn line(&self) -> String {
        let Self { processor, cores, memory, kernel, files, load } = self;
        let folder = std::env::temp_dir();
        format!(
            "{cores} cores ({processor}), {memory}, {kernel}, load {load} at start, files on \
             {files} in {}",
            folder.display()
        )
    }
}

/// What the kernel calls the file system that a folder is on.
fn file_system(folder: &Path) -> Result<String> {
    let folder = folder.canonicalize().context("no folder for temporary files")?;
    let mounts = read_to_string("/proc/self/mountinfo")?;
    let mounts = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let place = Path::new(mount.split(' ').nth(4)?);
        let depth = place.components().count();
        folder.starts_with(place).then_some((depth, system.split(' ').next()?))
    });
    // Of those at the same place the last one covers the others.
    let (_, system) = mounts.max_by_key(|(depth, _)| *depth).context("no mount is named")?;
    Ok(system.to_owned())
}

/// A folder for files, where those of the servers are as well.
pub(crate) fn folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().context("no folder for the files")
}

/// Lets this process have as many files and connections open as it may.
pub(crate) fn allow_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(())
}

/// How many files and connections this process may have open.
pub(crate) fn files_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// The memory of this process that is in RAM now, in bytes.
pub(crate) fn resident() -> Result<u64> {
    resident_of("self")
}

/// The same of the process with this id.
pub(crate) fn resident_of(process: &str) -> Result<u64> {
    let rollup = read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).context("no Rss line")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

/// The processor time that this process has used so far, with all its threads.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

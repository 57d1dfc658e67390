//! What the kernel says of this machine and this process.

use std::fs::read_to_string;
use std::path::PathBuf;
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
        Ok(Self {
            processor: model.map_or("unknown processor", |(_, model)| model).to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory: format!("{:.0} GiB", kib / f64::from(1 << 20)),
            kernel: format!("Linux {}", read_to_string("/proc/sys/kernel/osrelease")?.trim()),
            load: load.split(' ').next().unwrap_or("?").to_owned(),
        })
    }

    /// One line of all, for the terminal: it also says where the files are.
    pub(crate) fn line(&self) -> String {
        let Self { processor, cores, memory, kernel, load } = self;
        let disk = disk();
        format!(
            "{cores} cores ({processor}), {memory}, {kernel}, load {load} at start, files in {}",
            disk.display()
        )
    }
}

/// Where the files of this benchmark go: beside the build, so on a disk and not in memory.
fn disk() -> PathBuf {
    std::env::var_os("TENURE_BENCH_DIR")
        .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

pub(crate) fn folder() -> Result<tempfile::TempDir> {
    std::fs::create_dir_all(disk())?;
    tempfile::tempdir_in(disk()).context("no folder for the files")
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

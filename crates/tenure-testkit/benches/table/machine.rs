//! What the kernel says of this machine and this process.

use std::fs::read_to_string;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// One line on what all figures depend on.
pub(crate) fn facts() -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let kernel = read_to_string("/proc/sys/kernel/osrelease")?;
    let load = read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or("?");
    let cpus = read_to_string("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    Ok(format!(
        "{cores} cores ({model}), Linux {}, load {load} at start, files in {}",
        kernel.trim(),
        disk().display()
    ))
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
    let rollup = read_to_string("/proc/self/smaps_rollup")?;
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

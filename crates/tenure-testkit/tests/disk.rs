//! `file:` on a disk that fails: full, broken, unsynced, forbidden. Never a grant, nothing lost.

use std::fs;
use std::future::Future;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use tempfile::TempDir;
use tenure::Locks;
use tenure_testkit::role::{Process, Role};
use tenure_testkit::wait::until;

const SOON: Duration = Duration::from_secs(10);
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    tenure_testkit::role::run_if_asked();
    let arguments = Arguments::from_args();
    let trial = |name: &str, test: fn() -> Result<()>| {
        Trial::test(name, move || test().map_err(|error| Failed::from(format!("{error:?}"))))
    };
    let trials = vec![
        trial("a_full_disk_is_never_a_grant", || fails("space", "the disk is full")),
        trial("a_write_error_is_never_a_grant", || fails("io", "see the system log")),
        trial("a_failed_sync_is_never_a_grant", || fails("sync", "see the system log")),
        trial("a_file_of_another_user_is_denied", denied),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A process on a file, with a disk that fails on command.
struct Stage {
    folder: TempDir,
    url: String,
    process: Process,
}

impl Stage {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let library = build_library(folder.path())?;
        let url = format!("file:{}", folder.path().join("locks.db").display());
        let environment = [
            ("LD_PRELOAD", library.into_os_string()),
            ("FAULTY_DISK", folder.path().as_os_str().to_owned()),
        ];
        let process = Process::start_in(&Role::Answer { url: url.clone() }, environment)?;
        Ok(Self { folder, url, process })
    }

    fn order(&self, fault: &str) -> Result<()> {
        Ok(fs::write(self.folder.path().join(fault), "")?)
    }

    fn heal(&self, fault: &str) -> Result<()> {
        Ok(fs::remove_file(self.folder.path().join(fault))?)
    }

    async fn acquire(&mut self, key: &str) -> Result<String> {
        self.process.tell(&format!("acquire {key}")).await?;
        self.process.next().await?.context("the process ended")
    }

    async fn granted(&mut self, key: &str) -> Result<u64> {
        let answer = self.acquire(key).await?;
        let fence = answer.strip_prefix("granted ").with_context(|| answer.clone())?;
        Ok(fence.parse()?)
    }
}

fn build_library(folder: &Path) -> Result<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/disk/faulty_disk.c");
    let library = folder.join("faulty_disk.so");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .args([source, "-ldl"])
        .output()
        .context("cc could not be started")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(library)
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Runtime::new()?.block_on(work)
}

fn fails(fault: &str, text: &str) -> Result<()> {
    block_on(async {
        let mut stage = Stage::new()?;
        let first = stage.granted("before").await?;
        stage.order(fault)?;
        for key in ["during-1", "during-2"] {
            let answer = stage.acquire(key).await?;
            ensure!(answer.starts_with("refused Un"), "neither unavailable nor unknown: {answer}");
            ensure!(answer.contains(text) && answer.contains("locks.db"), "{answer}");
        }
        stage.heal(fault)?;
        let after = stage.granted("after").await?;
        ensure!(after > first, "fence {after} after {first}");
        // Another process, whose disk never failed, sees what was acknowledged and nothing else.
        let locks = Locks::open(&stage.url).await?;
        for (key, fence) in [("before", first), ("after", after)] {
            let seen = locks.status(key).await?.map(|status| status.fence.get());
            ensure!(seen == Some(fence), "{key} with fence {fence} is lost: {seen:?}");
        }
        for key in ["during-1", "during-2"] {
            until("what was refused to be free", SOON, || async {
                Ok(!locks.is_locked(key).await?)
            })
            .await?;
        }
        Ok(())
    })
}

fn denied() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locks.db");
    let url = format!("file:{}", path.display());
    block_on(async { Ok(Locks::open(&url).await?) })?;
    // Root may open anything, so root becomes nobody; others forbid themselves.
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(if is_root { 0o600 } else { 0o000 }))?;
    block_on(async {
        let role = Role::Answer { url: url.clone() };
        let mut process = if is_root {
            let program = folder.path().join("program");
            fs::copy(std::env::current_exe()?, &program)?;
            Process::start_as(&role, &program, NOBODY)?
        } else {
            Process::start(&role)?
        };
        let answer = process.next().await.err().context("opened")?.to_string();
        ensure!(answer.contains("needs read and write access"), "{answer}");
        Ok(())
    })
}

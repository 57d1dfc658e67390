//! What is not a lock, and stands where one should be.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tenure::error::Chain;
use tenure::{ErrorKind, Fence, Locks};

use crate::room;

pub(crate) async fn what_cannot_be_read_is_replaced_by_force_and_no_fence_goes_back() -> Result<()>
{
    let url = room("object/folder").await?;
    let locks = Locks::open(&url).await?;
    let mut last = Fence::new(0);
    for _ in 0..3 {
        let guard = locks.lock("k").acquire().await?;
        last = guard.fence();
        guard.release().await?;
    }
    let folder = Path::new(url.strip_prefix("folder:").context("no folder")?);
    let mut files = std::fs::read_dir(folder)?.flatten().map(|file| file.path());
    let file = files.find(|file| file.to_string_lossy().ends_with("-2Fk")).context("no file")?;
    std::fs::write(&file, "written by an editor")?;
    let error = locks.lock("k").try_acquire().await.err().context("granted")?;
    ensure!(error.kind() == ErrorKind::Damaged, "{}", Chain(&error));
    ensure!(error.to_string().contains("force-release"), "{error}");
    ensure!(locks.force_release("k", "it was edited").await?.is_none());
    let guard = locks.lock("k").try_acquire().await?.context("not free")?;
    ensure!(guard.fence() > last, "{} after {last}", guard.fence());
    Ok(())
}

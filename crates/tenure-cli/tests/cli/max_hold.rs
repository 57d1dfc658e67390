//! `--max-hold`: nobody holds a lock for longer than that.

use std::time::Duration;

use tenure::clock::{Clock, SystemClock};

use crate::sandbox::{Ran, Sandbox, is_running, since};

#[tokio::test]
async fn a_command_that_takes_too_long_is_stopped() {
    let sandbox = Sandbox::new();
    let script = "echo $$ > pid; exec sleep 600";
    let words = ["run", "k", "--max-hold", "2s", "--", "sh", "-c", script];
    let start = SystemClock.now();
    let child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    Ran::of(child).await.expect(76, &["--max-hold", "with SIGTERM"]);
    assert!(since(start) > Duration::from_secs(1), "{:?}", since(start));
    assert!(!is_running(command));
    assert_eq!(sandbox.locks().await.status("k").await.unwrap(), None);
}

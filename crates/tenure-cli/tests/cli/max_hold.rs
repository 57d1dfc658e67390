//! `--max-hold`: nobody holds a lock for longer than that.

use crate::sandbox::{Ran, Sandbox, is_running};

#[tokio::test]
async fn a_command_that_takes_too_long_is_stopped() {
    let sandbox = Sandbox::new();
    let script = "echo $$ > pid; exec sleep 600";
    let words = ["run", "k", "--max-hold", "1s", "--", "sh", "-c", script];
    let child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    Ran::of(child).await.expect(76, &["--max-hold", "with SIGTERM"]);
    assert!(!is_running(command));
    assert_eq!(sandbox.locks().await.status("k").await.unwrap(), None);
}

//! `tenure run` over the wire, on a lock of `tenure serve`.

use rustix::process::Signal;

use crate::sandbox::{Ran, Sandbox, send, until_said};

#[tokio::test]
async fn a_file_a_server_and_a_command_share_one_lock() {
    let sandbox = Sandbox::new();
    let mut server = sandbox.tenure(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let said = until_said(&mut server, "serving on http://").await;
    let address = said.split("http://").nth(1).unwrap().trim();
    let url = format!("tenure://{address}");
    let script = "echo $TENURE_FENCE > fence";
    let words = ["run", "k", "--no-wait", "--store", &url, "--", "sh", "-c", script];

    let guard = sandbox.locks().await.lock("k").acquire().await.unwrap();
    sandbox.run(&words).await.expect(75, &["held"]);
    let before = guard.fence().get();
    guard.release().await.unwrap();
    sandbox.run(&words).await.expect(0, &[]);
    let fence: u64 = sandbox.line("fence").await.trim().parse().unwrap();
    assert!(fence > before, "{fence} after {before}");

    send(&server, Signal::TERM);
    Ran::of(server).await.expect(0, &[]);
    sandbox.run(&words).await.expect(69, &["cannot be connected to"]);
}

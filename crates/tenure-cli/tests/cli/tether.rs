//! A command ends with its `tenure`, even when that is killed.

use rustix::process::{Signal, kill_process};
use tenure::clock::{Clock, SystemClock};

use crate::sandbox::{Ran, Sandbox, is_running, pid, send, since, until};

async fn gone(sandbox: &Sandbox, names: &[&str]) {
    for name in names {
        let process = sandbox.pid(name).await;
        until(&format!("end of {name}"), || (!is_running(process)).then_some(())).await;
    }
}

#[tokio::test]
async fn killing_tenure_kills_the_command() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 0.02; done";
    let words = ["run", "k", "--ttl", "1h", "--", "sh", "-c", script];
    let mut child = sandbox.tenure(&words).spawn().unwrap();
    sandbox.line("pid").await;
    send(&child, Signal::KILL);
    child.wait().await.unwrap();
    gone(&sandbox, &["pid"]).await;
}

#[tokio::test]
async fn killing_tenure_kills_what_the_command_has_started() {
    let sandbox = Sandbox::new();
    let sleeper = |name| format!("sh -c 'echo $$ > {name}; exec sleep 600'");
    let script = format!(
        "{} | cat & setsid {} & echo $$ > pid; echo $TENURE_OWNER_FILE > file; wait",
        sleeper("near"),
        sleeper("far")
    );
    let words = ["run", "k", "--ttl", "1h", "--", "sh", "-c", &script];
    let mut child = sandbox.tenure(&words).spawn().unwrap();
    for name in ["near", "far", "pid", "file"] {
        sandbox.line(name).await;
    }
    send(&child, Signal::KILL);
    child.wait().await.unwrap();
    gone(&sandbox, &["near", "far", "pid"]).await;
    let file = sandbox.line("file").await;
    until("end of the owner's file", || {
        (!std::path::Path::new(file.trim()).exists()).then_some(())
    })
    .await;
}

/// The kernel does it, for whoever would do it otherwise may be killed as well.
#[tokio::test]
async fn killing_everything_that_is_called_tenure_kills_the_command() {
    let sandbox = Sandbox::new();
    let words = ["run", "k", "--ttl", "1h", "--", "sh", "-c", "echo $$ > pid; exec sleep 600"];
    let mut child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    let tenure = child.id().unwrap();
    let children =
        std::fs::read_to_string(format!("/proc/{tenure}/task/{tenure}/children")).unwrap();
    let numbers = children.split_whitespace().map(|number| pid(number.parse().unwrap()));
    let wardens: Vec<_> = numbers.filter(|number| *number != command).collect();
    assert_eq!(wardens.len(), 1, "{children}");
    kill_process(wardens[0], Signal::KILL).unwrap();
    send(&child, Signal::KILL);
    child.wait().await.unwrap();
    gone(&sandbox, &["pid"]).await;
}

#[tokio::test]
async fn what_outlives_a_command_that_ended_by_itself_is_left_alone() {
    let sandbox = Sandbox::new();
    let script = "setsid sh -c 'echo $$ > pid; exec sleep 600' < /dev/null > /dev/null 2>&1 & \
                  while ! [ -s pid ]; do sleep 0.01; done; exit 4";
    Ran::of(sandbox.tenure(&["run", "k", "--", "sh", "-c", script]).spawn().unwrap())
        .await
        .expect(4, &[]);
    let left = sandbox.pid("pid").await;
    let start = SystemClock.now();
    while since(start) < std::time::Duration::from_millis(300) {
        assert!(is_running(left), "it was killed {:?} later", since(start));
        SystemClock.sleep_until(SystemClock.now() + std::time::Duration::from_millis(10)).await;
    }
    kill_process(left, Signal::KILL).unwrap();
}

#[tokio::test]
async fn the_owner_is_in_a_file_for_this_user_alone() {
    let sandbox = Sandbox::new();
    let script = "stat -c '%a %s' \"$TENURE_OWNER_FILE\"; echo \"$TENURE_OWNER_FILE\"";
    let ran = sandbox.run(&["run", "k", "--", "sh", "-c", script]).await;
    ran.expect(0, &[]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "600 37", "{ran:?}");
    assert!(!std::path::Path::new(lines[1]).exists());
}

/// Orphans that fall to `tenure` are buried while the command runs.
#[tokio::test]
async fn no_dead_are_left_lying() {
    let sandbox = Sandbox::new();
    sandbox.gate();
    let script = "(sh -c 'echo $$ > one; exit 0' &); while ! [ -s one ]; do sleep 0.01; done; \
                  echo $$ > pid; cat gate";
    let child = sandbox.tenure(&["run", "k", "--", "sh", "-c", script]).spawn().unwrap();
    sandbox.line("pid").await;
    let orphan = sandbox.pid("one").await;
    until("burial", || (!std::path::Path::new(&format!("/proc/{orphan}")).exists()).then_some(()))
        .await;
    sandbox.open_gate();
    Ran::of(child).await.expect(0, &[]);
}

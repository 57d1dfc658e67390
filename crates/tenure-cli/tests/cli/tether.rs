//! A command ends with its `tenure`, even when that is killed.

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use tenure::clock::{Clock, SystemClock};
use tokio::process::Child;

use crate::sandbox::{Ran, Sandbox, is_running, pid, send, since, until};

async fn gone(sandbox: &Sandbox, names: &[&str]) {
    for name in names {
        let process = sandbox.pid(name).await;
        until(&format!("end of {name}"), || (!is_running(process)).then_some(())).await;
    }
}

/// The children of `tenure` besides the command.
fn wardens(child: &Child, command: Pid) -> Vec<Pid> {
    let tenure = child.id().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{tenure}/task/{tenure}/children"));
    let children = children.unwrap();
    let numbers = children.split_whitespace().map(|number| pid(number.parse().unwrap()));
    numbers.filter(|number| *number != command && is_running(*number)).collect()
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
    let [warden] = wardens(&child, command)[..] else { panic!("there is one warden") };
    kill_process(warden, Signal::KILL).unwrap();
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

/// A `tenure` under a `tenure`: the outer one's end is that of all.
#[tokio::test]
async fn killing_the_outer_one_of_two_kills_all() {
    let sandbox = Sandbox::new();
    let script = "setsid sh -c 'echo $$ > far; exec sleep 600' & echo $$ > pid; \
                  echo $TENURE_OWNER_FILE > file; wait";
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let words = ["run", "a", "--", tenure, "run", "b", "--", "sh", "-c", script];
    let mut child = sandbox.tenure(&words).spawn().unwrap();
    for name in ["far", "pid", "file"] {
        sandbox.line(name).await;
    }
    send(&child, Signal::KILL);
    child.wait().await.unwrap();
    gone(&sandbox, &["far", "pid"]).await;
    let file = sandbox.line("file").await;
    let is_gone = || (!std::path::Path::new(file.trim()).exists()).then_some(());
    until("end of the owner's file", is_gone).await;
}

/// Nobody renews while `tenure` is stopped, and it cannot stop the command either.
#[tokio::test]
async fn a_tenure_that_is_stopped_does_not_let_the_command_outlive_the_lock() {
    for signal in [Signal::STOP, Signal::TSTP] {
        let sandbox = Sandbox::new();
        let script = "trap '' TERM TSTP; (trap '' TSTP; setsid sh -c 'echo $$ > far; while :; do \
                      sleep 0.02; done') & echo $$ > pid; while :; do sleep 0.02; done";
        let words = ["run", "k", "--ttl", "5s", "--", "sh", "-c", script];
        let child = sandbox.tenure_by(&["env", "--default-signal=TSTP"], &words).spawn().unwrap();
        let (command, far) = (sandbox.pid("pid").await, sandbox.pid("far").await);
        send(&child, signal);
        let locks = sandbox.locks().await;
        let next = locks.lock("k").wait(crate::sandbox::LIMIT).acquire().await.unwrap();
        assert!(!is_running(command) && !is_running(far), "{signal:?}");
        send(&child, Signal::CONT);
        Ran::of(child).await.expect(76, &["was lost", "with SIGKILL"]);
        next.release().await.unwrap();
    }
}

/// The warden strikes a little before belief ends: what it did is not the command's own end.
#[tokio::test]
async fn a_tenure_that_goes_on_just_then_knows_who_killed_the_command() {
    let sandbox = Sandbox::new();
    let words = ["run", "k", "--ttl", "5s", "--", "sh", "-c", "echo $$ > pid; exec sleep 600"];
    let child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    send(&child, Signal::STOP);
    until("end of the command", || (!is_running(command)).then_some(())).await;
    send(&child, Signal::CONT);
    Ran::of(child).await.expect(76, &["was lost", "could not be renewed in time", "with SIGKILL"]);
}

#[tokio::test]
async fn a_warden_that_is_gone_is_replaced() {
    let sandbox = Sandbox::new();
    let words = ["run", "k", "--ttl", "5s", "--", "sh", "-c", "echo $$ > pid; exec sleep 600"];
    let child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    let [first] = wardens(&child, command)[..] else { panic!("there is one warden") };
    kill_process(first, Signal::KILL).unwrap();
    let other = |all: Vec<Pid>| all.iter().any(|warden| *warden != first).then_some(());
    until("another warden", || other(wardens(&child, command))).await;
    send(&child, Signal::STOP);
    let locks = sandbox.locks().await;
    let next = locks.lock("k").wait(crate::sandbox::LIMIT).acquire().await.unwrap();
    assert!(!is_running(command));
    send(&child, Signal::CONT);
    Ran::of(child).await.expect(76, &["watches over the command was ended", "was lost"]);
    next.release().await.unwrap();
}

/// With no file to be opened any more, `/proc` tells nothing.
#[tokio::test]
async fn where_nobody_can_be_seen_the_lock_is_left_to_its_ttl() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let words = ["run", "k", "--max-hold", "3s", "--ttl", "1h", "--", "sh", "-c", script];
    let child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(3), maximum };
    prlimit(Some(pid(child.id().unwrap())), Resource::Nofile, none).unwrap();
    Ran::of(child).await.expect(76, &["--max-hold", "left to end with its ttl"]);
    assert!(!is_running(command));
    assert!(sandbox.locks().await.is_locked("k").await.unwrap());
}

/// A reader that does not read holds `tenure` up where it writes.
#[tokio::test]
async fn a_full_pipe_does_not_let_the_command_outlive_the_lock() {
    let sandbox = Sandbox::new();
    let script = "echo $$ > pid; while :; do sleep 0.02; done";
    let words = ["run", "k", "--ttl", "5s", "-v", "--", "sh", "-c", script];
    let mut command = sandbox.tenure(&words);
    // Far more than a pipe holds.
    command.env("TENURE_LOG", "trace,tenure=trace");
    let mut child = command.spawn().unwrap();
    let shell = sandbox.pid("pid").await;
    let full = child.stderr.take().unwrap();
    fill(&child);
    let locks = sandbox.locks().await;
    let next = locks.lock("k").wait(crate::sandbox::LIMIT).acquire().await.unwrap();
    assert!(!is_running(shell));
    next.release().await.unwrap();
    drop(full);
    child.kill().await.unwrap();
}

/// Writes into a process's stderr, through `/proc`, until no more goes in.
fn fill(child: &Child) {
    let path = format!("/proc/{}/fd/2", child.id().unwrap());
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    let pipe = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
    while rustix::io::write(&pipe, &[b'x'; 4096]).is_ok() {}
    while rustix::io::write(&pipe, b"x").is_ok() {}
}

/// Children that `tenure` has inherited are none of the command's.
#[tokio::test]
async fn bystanders_are_left_alone() {
    let sandbox = Sandbox::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let script = format!(
        "sh -c 'echo $$ > near; exec sleep 600' & \
         exec {tenure} run k --ttl 5s -- sh -c 'echo $$ > pid; exec sleep 600'"
    );
    let child = sandbox.started(&["bash", "-c", &script]).spawn().unwrap();
    let (command, near) = (sandbox.pid("pid").await, sandbox.pid("near").await);
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    until("end of the command", || (!is_running(command)).then_some(())).await;
    let alive = is_running(near);
    kill_process(near, Signal::KILL).unwrap();
    Ran::of(child).await.expect(76, &["was lost"]);
    assert!(alive);
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

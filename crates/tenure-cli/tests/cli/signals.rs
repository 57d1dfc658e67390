//! Signals reach the command, `tenure` outlives them, and the lock is free afterwards.

use rustix::process::{Signal, kill_process_group};
use tokio::process::Child;

use crate::sandbox::{Ran, Sandbox, is_running, pid, send, state, until, until_said};

const USUAL: &str = "--default-signal=TERM,HUP,INT,QUIT,USR1,USR2,TSTP";

/// A command that says which signal it got and ends with 7. It sleeps in short naps: a shell that
/// is about to start a program when the signal comes may leave that program without it.
fn trapping(name: &str) -> String {
    format!(
        "trap 'echo {name} > got; exit 7' {name}; echo $$ > pid; \
         while :; do sleep 0.02; done"
    )
}

fn start(sandbox: &Sandbox, script: &str) -> Child {
    let words = ["run", "k", "--ttl", "1h", "--", "sh", "-c", script];
    sandbox.tenure_by(&["env", USUAL], &words).spawn().unwrap()
}

async fn assert_free(sandbox: &Sandbox) {
    assert_eq!(sandbox.locks().await.status("k").await.unwrap(), None);
}

#[tokio::test]
async fn a_signal_to_tenure_reaches_the_command() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let sandbox = Sandbox::new();
        let child = start(&sandbox, &trapping(name));
        sandbox.line("pid").await;
        send(&child, signal);
        Ran::of(child).await.expect(7, &[]);
        assert_eq!(sandbox.line("got").await, format!("{name}\n"));
        assert_free(&sandbox).await;
    }
}

#[tokio::test]
async fn a_signal_to_tenure_s_group_reaches_the_command() {
    let sandbox = Sandbox::new();
    let child = start(&sandbox, &trapping("INT"));
    sandbox.line("pid").await;
    kill_process_group(pid(child.id().unwrap()), Signal::INT).unwrap();
    Ran::of(child).await.expect(7, &[]);
    assert_eq!(sandbox.line("got").await, "INT\n");
    assert_free(&sandbox).await;
}

#[tokio::test]
async fn a_command_that_dies_of_it_makes_128_and_its_number() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let sandbox = Sandbox::new();
        let child = start(&sandbox, "echo $$ > pid; exec sleep 600");
        let command = sandbox.pid("pid").await;
        send(&child, signal);
        Ran::of(child).await.expect(code, &[]);
        assert!(!is_running(command));
        assert_free(&sandbox).await;
    }
}

#[tokio::test]
async fn tenure_stays_with_a_command_that_ignores_it() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let child = start(&sandbox, script);
    let command = sandbox.pid("pid").await;
    send(&child, Signal::TERM);
    send(&child, Signal::HUP);
    // SIGHUP is not ignored: it ends the shell, and with it `tenure`; SIGTERM did not.
    Ran::of(child).await.expect(129, &[]);
    assert!(!is_running(command));
    assert_free(&sandbox).await;
}

#[tokio::test]
async fn what_was_ignored_stays_ignored() {
    let sandbox = Sandbox::new();
    let words = ["run", "k", "--", "sh", "-c", "echo $$ > pid; cat gate; exit 4"];
    sandbox.gate();
    let mut command = sandbox.tenure_by(&["env", USUAL, "--ignore-signal=HUP"], &words);
    let child = command.spawn().unwrap();
    let shell = sandbox.pid("pid").await;
    send(&child, Signal::HUP);
    rustix::process::kill_process(shell, Signal::HUP).unwrap();
    sandbox.open_gate();
    Ran::of(child).await.expect(4, &[]);
}

#[tokio::test]
async fn a_signal_ends_the_wait() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = start(&sandbox, "echo ran > ran");
        until_said(&mut child, "waiting for").await;
        send(&child, signal);
        Ran::of(child).await.expect(code, &[]);
    }
    guard.release().await.unwrap();
    assert_free(&sandbox).await;
    assert!(!sandbox.path("ran").exists());
}

/// Without a terminal, whoever suspends `tenure` suspends the command with it.
#[tokio::test]
async fn suspending_tenure_suspends_the_command() {
    let sandbox = Sandbox::new();
    // It starts nothing: a shell that is about to would wait for that where no signal reaches it.
    let script = "echo $$ > pid; read line < gate; exit 7";
    sandbox.gate();
    let child = start(&sandbox, script);
    let command = sandbox.pid("pid").await;
    let tenure = pid(child.id().unwrap());
    send(&child, Signal::TSTP);
    for process in [tenure, command] {
        until("suspension", || (state(process) == Some('T')).then_some(())).await;
    }
    send(&child, Signal::CONT);
    sandbox.open_gate();
    Ran::of(child).await.expect(7, &[]);
    assert_free(&sandbox).await;
}

/// A lock that ended while nobody could renew it: the command does not take another step.
#[tokio::test]
async fn a_command_that_was_suspended_for_too_long_is_killed() {
    let sandbox = Sandbox::new();
    let script = "echo $$ > pid; read line < gate; echo late > late";
    sandbox.gate();
    let words = ["run", "k", "--ttl", "5s", "--", "sh", "-c", script];
    let child = sandbox.tenure_by(&["env", USUAL], &words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    send(&child, Signal::TSTP);
    until("suspension", || (state(command) == Some('T')).then_some(())).await;
    let locks = sandbox.locks().await;
    let next = locks.lock("k").wait(crate::sandbox::LIMIT).acquire().await.unwrap();
    assert!(!is_running(command));
    send(&child, Signal::CONT);
    Ran::of(child).await.expect(76, &["was lost"]);
    assert!(!is_running(command) && !sandbox.path("late").exists());
    next.release().await.unwrap();
}

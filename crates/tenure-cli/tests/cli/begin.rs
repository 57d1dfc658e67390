//! Nothing of a command runs before it is known that the lock is still held.

use std::io::{PipeWriter, Read};
use std::os::fd::AsFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::process::Child;

use crate::sandbox::{LIMIT, Ran, Sandbox};

/// A pipe in which there is no room.
fn full() -> (std::io::PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(writer.as_fd()).unwrap();
    fcntl_setfl(writer.as_fd(), flags | OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&writer, &[b'\n'; 4096]).is_ok() {}
    while rustix::io::write(&writer, b"\n").is_ok() {}
    fcntl_setfl(writer.as_fd(), flags).unwrap();
    (reader, writer)
}

/// Has `tenure` wait, with the lock in its hand, for someone to read that it has it: until the lock
/// is another's. Then it goes on.
async fn held_up(sandbox: &Sandbox, more: &[&str]) -> (Option<i32>, String) {
    let (mut reader, writer) = full();
    let words = [&["run", "k", "--json", "--ttl", "1s"], more, &["--", "touch", "ran"]].concat();
    let mut command = sandbox.tenure(&words);
    let child: Child = command.stderr(writer).spawn().unwrap();
    drop(command);
    let locks = sandbox.locks().await;
    while !locks.is_locked("k").await.unwrap() {
        tokio::task::yield_now().await;
    }
    let next = locks.lock("k").wait(LIMIT).acquire().await.unwrap();
    let said = tokio::task::spawn_blocking(move || {
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        said
    });
    let ran = Ran::of(child).await;
    next.release().await.unwrap();
    (ran.code, said.await.unwrap())
}

#[tokio::test]
async fn a_lock_that_is_lost_before_the_command_begins_keeps_it_from_that() {
    for on_lost in ["term", "kill", "warn"] {
        let sandbox = Sandbox::new();
        let (code, said) = held_up(&sandbox, &["--on-lost", on_lost]).await;
        assert_eq!(code, Some(76), "{said}");
        assert!(said.contains("was lost") && said.contains("the command was not run"), "{said}");
        assert!(!sandbox.path("ran").exists());
    }
}

#[tokio::test]
async fn a_period_in_which_nothing_was_run_is_not_over() {
    let sandbox = Sandbox::new();
    let (code, said) = held_up(&sandbox, &["--once-per", "1h"]).await;
    assert_eq!(code, Some(76), "{said}");
    let words = ["run", "k", "--no-wait", "--once-per", "1h", "--", "touch", "ran"];
    sandbox.run(&words).await.expect(0, &[]);
    assert!(sandbox.path("ran").exists());
}

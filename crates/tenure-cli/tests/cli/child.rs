//! What the command gets and what becomes of its output.

use std::process::Stdio;
use std::time::Duration;

use tenure::clock::{Clock, SystemClock, within};
use tokio::io::AsyncWriteExt;

use crate::sandbox::{LIMIT, Ran, Sandbox};

#[tokio::test]
async fn the_command_is_told_key_and_fence() {
    let sandbox = Sandbox::new();
    let mut last = 0;
    for _ in 0..5 {
        let script = "printf '%s %s' \"$TENURE_KEY\" \"$TENURE_FENCE\"";
        let ran = sandbox.run(&["run", "order:42", "--", "sh", "-c", script]).await;
        ran.expect(0, &[]);
        let (key, fence) = ran.stdout.split_once(' ').unwrap();
        assert_eq!(key, "order:42");
        let fence: u64 = fence.parse().unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

#[tokio::test]
async fn the_owner_is_kept_from_the_command() {
    let sandbox = Sandbox::new();
    // All of its environment and arguments, and those of `tenure` itself.
    let script = "cat /proc/$$/environ /proc/$$/cmdline /proc/$PPID/environ /proc/$PPID/cmdline; \
                  echo; echo go > ready; cat gate";
    sandbox.gate();
    let words = ["run", "k", "-v", "--", "sh", "-c", script];
    let child = sandbox.tenure(&words).env("TENURE_LOG", "trace").spawn().unwrap();
    sandbox.line("ready").await;
    let owner = owner_in(&sandbox);
    sandbox.open_gate();
    let ran = Ran::of(child).await;
    ran.expect(0, &["holding \"k\""]);
    assert!(ran.stdout.contains("TENURE_FENCE=1"), "{ran:?}");
    for form in [owner.clone(), owner.replace('-', "")] {
        assert!(!ran.stdout.contains(&form) && !ran.stderr.contains(&form), "{ran:?}");
    }
}

/// The owner of the one lease in the store, as its text: found in the files, because nothing shows
/// it.
fn owner_in(sandbox: &Sandbox) -> String {
    let mut bytes = std::fs::read(sandbox.path("locks.db")).unwrap();
    bytes.extend(std::fs::read(sandbox.path("locks.db-wal")).unwrap());
    let text = String::from_utf8_lossy(&bytes);
    let is_uuid = |text: &str| {
        text.len() == 36
            && text.char_indices().all(|(at, c)| match at {
                8 | 13 | 18 | 23 => c == '-',
                14 => c == '4',
                _ => c.is_ascii_digit() || matches!(c, 'a'..='f'),
            })
    };
    let starts = text.char_indices().map(|(at, _)| at);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    starts
        .filter_map(|at| text.get(at..at + 36))
        .find(|text| is_uuid(text) && *text != boot.trim())
        .expect("the store keeps the owner")
        .to_owned()
}

#[tokio::test]
async fn input_and_output_pass_through_untouched() {
    let sandbox = Sandbox::new();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let script = "cat; printf 'on stderr' >&2";
    let mut command = sandbox.tenure(&["run", "k", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = bytes.clone();
    let writing = tokio::spawn(async move { stdin.write_all(&input).await.unwrap() });
    let output = within(&SystemClock, LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    writing.await.unwrap();
    assert!(output.status.success());
    assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
    assert_eq!(output.stderr, b"on stderr");
}

#[tokio::test]
async fn arguments_are_passed_as_they_are() {
    let sandbox = Sandbox::new();
    let words = ["run", "k", "--", "printf", "%s|", "--wait", "a b", "", "$HOME", "--", "-h"];
    let ran = sandbox.run(&words).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stdout, "--wait|a b||$HOME|--|-h|");
}

#[tokio::test]
async fn the_lock_is_kept_alive_past_its_ttl() {
    let sandbox = Sandbox::new();
    const TTL: Duration = Duration::from_secs(4);
    let words = ["run", "k", "--ttl", "4s", "--", "sh", "-c", "echo $$ > started; cat gate"];
    sandbox.gate();
    let child = sandbox.tenure(&words).spawn().unwrap();
    sandbox.line("started").await;
    let locks = sandbox.locks().await;
    let fence = locks.status("k").await.unwrap().unwrap().fence;
    let start = SystemClock.now();
    // Longer than a lease that nobody has renewed.
    while SystemClock.now().since(start) < TTL + TTL / 4 {
        assert_eq!(locks.status("k").await.unwrap().map(|status| status.fence), Some(fence));
        SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(20)).await;
    }
    sandbox.open_gate();
    Ran::of(child).await.expect(0, &[]);
    assert!(!locks.is_locked("k").await.unwrap());
}

#[tokio::test]
async fn the_command_can_prolong_its_own_lock() {
    let sandbox = Sandbox::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let script = format!("{tenure} renew \"$TENURE_KEY\" --ttl 1h --json");
    let ran = sandbox.run(&["run", "k", "--", "sh", "-c", &script]).await;
    ran.expect(0, &[]);
    let lease: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(lease["ttl_ms"], 3_600_000, "{ran:?}");
}

#[tokio::test]
async fn that_it_cannot_be_started_is_said_in_json_too() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["run", "k", "--json", "--", "./no-such-program"]).await;
    ran.expect(127, &[]);
    let last: serde_json::Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["exit"]), (&"failed".into(), &127.into()), "{ran:?}");
}

use std::process::{Command, Stdio};

use super::*;
use crate::claim::Released;
use crate::clock::within;

const FILE: &str = "TENURE_TEST_FILE";
const PROCESSES: usize = 20;
const ROUNDS: usize = 10;
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What each of the processes does.
async fn one_process(path: &Path) {
    let store = open(path).await;
    let claim = claim("k", &format!("process-{}", std::process::id()), 60_000);
    for _ in 0..ROUNDS {
        let lease = loop {
            let mut watch = store.watch(&claim.key).await.unwrap();
            match store.try_acquire(&claim).await.unwrap() {
                Attempt::Granted(lease) => break lease,
                // No polling here: a lost wake-up must show.
                Attempt::Held(_) => {
                    within(&SystemClock, WAIT_MAX, watch.changed()).await.expect("not woken");
                }
            }
        };
        println!("fence {}", lease.fence);
        assert!(matches!(store.release(&grant_of(&lease)).await.unwrap(), Released::Released(_)));
    }
}

#[tokio::test]
async fn twenty_processes_may_start_at_once() {
    // The test starts itself again, twenty times, with a file to work on.
    if let Some(path) = std::env::var_os(FILE) {
        return one_process(Path::new(&path)).await;
    }
    let (_folder, path) = temporary();
    let me = std::env::current_exe().unwrap();
    let name = "stores::file::tests::several_processes::twenty_processes_may_start_at_once";
    let start = || {
        Command::new(&me)
            .args(["--exact", name, "--nocapture"])
            .env(FILE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let mut fences = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        // The test runner's own words may stand before the first of ours on a line.
        let own = text.lines().filter_map(|line| line.rsplit_once("fence ")?.1.parse().ok());
        let own: Vec<u64> = own.collect();
        assert!(own.is_sorted() && own.len() == ROUNDS, "{own:?}");
        fences.extend(own);
    }
    fences.sort_unstable();
    let all: Vec<u64> = (1..=(PROCESSES * ROUNDS) as u64).collect();
    assert_eq!(fences, all, "each grant has its own fence");
}

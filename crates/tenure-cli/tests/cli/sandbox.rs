//! A folder with a store in it, and processes that use it: what all tests here work with.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure::Locks;
use tenure::clock::{Clock, Moment, SystemClock, within};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// No wait in these tests is longer than this. It is far more than any should take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What whoever runs the tests may have set, and would change what is tested.
const UNSET: [&str; 11] = [
    "COLUMNS",
    "NO_COLOR",
    "TENURE_CONFIG",
    "TENURE_INSECURE",
    "TENURE_LISTEN",
    "TENURE_LOG",
    "TENURE_NAMESPACE",
    "TENURE_OWNER",
    "TENURE_OWNER_FILE",
    "TENURE_TOKEN",
    "XDG_DATA_HOME",
];

const LOOK: Duration = Duration::from_millis(5);

/// A folder of one test; what is in it goes with it.
pub(crate) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("file:{}", self.path("locks.db").display())
    }

    /// The locks of this store, used from the test itself.
    pub(crate) async fn locks(&self) -> Locks {
        Locks::open(&self.url()).await.unwrap()
    }

    /// `tenure` with these words; nothing of it is a terminal.
    pub(crate) fn tenure(&self, words: &[&str]) -> Command {
        self.tenure_by(&[], words)
    }

    /// As [`tenure`](Self::tenure), started by another program such as `env`. It is in
    /// a session of its own, as under cron: whoever runs the tests may have a terminal.
    pub(crate) fn tenure_by(&self, starter: &[&str], words: &[&str]) -> Command {
        self.started(&[&["setsid"], starter, &[env!("CARGO_BIN_EXE_tenure")], words].concat())
    }

    /// `tenure serve` on this store, and its URL.
    #[cfg(feature = "remote")]
    pub(crate) async fn serve(&self, listen: &str) -> (Child, String) {
        let mut server = self.tenure(&["serve", "--listen", listen]).spawn().unwrap();
        let said = until_said(&mut server, "serving on http://").await;
        let address = said.split("http://").nth(1).unwrap().trim().to_owned();
        (server, format!("tenure://{address}"))
    }

    /// Another program, in the same surroundings. It ignores no signal, even if whoever runs the
    /// tests does, as a job in the background of a script.
    pub(crate) fn started(&self, words: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal").args(words);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        for name in UNSET {
            command.env_remove(name);
        }
        command
            .env("TENURE_STORE", self.url())
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .env_remove("XDG_RUNTIME_DIR")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
    }

    /// Takes the lock as another process would, and leaves it; its owner.
    pub(crate) async fn leave_lock(&self, key: &str, note: &str) -> String {
        let locks = self.locks().await;
        let request = locks.lock(key).ttl(Duration::from_secs(600)).holder(note);
        request.try_acquire().await.unwrap().expect("it is free").detach().owner.expose()
    }

    /// Runs `tenure` with these words to its end.
    pub(crate) async fn run(&self, words: &[&str]) -> Ran {
        Ran::of(self.tenure(words).spawn().unwrap()).await
    }

    /// Waits until the file has text in it that ends with a line.
    pub(crate) async fn line(&self, name: &str) -> String {
        let path = self.path(name);
        until(&format!("a line in {name}"), || whole_lines(&path)).await
    }

    /// A pipe, `gate`, that `cat` in a script waits at, until [`open_gate`](Self::open_gate).
    pub(crate) fn gate(&self) {
        let made = std::process::Command::new("mkfifo").arg(self.path("gate")).status();
        assert!(made.unwrap().success());
    }

    pub(crate) fn open_gate(&self) {
        std::fs::write(self.path("gate"), "").unwrap();
    }

    /// When a script with [`BEATS`] lived for the last time, by its own word: however late a busy
    /// machine lets this test look.
    pub(crate) async fn last_beat(&self) -> Moment {
        let beats = self.line("beat").await;
        let last = beats.lines().last().and_then(|line| line.split(' ').next()).unwrap();
        let (seconds, parts) = last.split_once('.').unwrap();
        let hundredths: u64 = format!("{seconds}{parts}").parse().unwrap();
        Moment::from_nanos(hundredths * 10_000_000)
    }

    /// A process id that a script has written to the file.
    pub(crate) async fn pid(&self, name: &str) -> Pid {
        pid(self.line(name).await.trim().parse().unwrap())
    }
}

fn whole_lines(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))
}

/// How a `tenure` ended and what it wrote.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) async fn of(child: Child) -> Self {
        let Output { status, stdout, stderr } =
            within(&SystemClock, LIMIT, child.wait_with_output()).await.expect("it ends").unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Fails unless it ended with this code and said this.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in said {
            assert!(self.stderr.contains(part), "{part:?} is missing in {self:?}");
        }
    }
}

/// The lines that a `tenure` prints, as they come.
pub(crate) struct Printed(Lines<BufReader<ChildStdout>>);

impl Printed {
    pub(crate) fn by(child: &mut Child) -> Self {
        Self(BufReader::new(child.stdout.take().unwrap()).lines())
    }

    /// The next line.
    pub(crate) async fn line(&mut self) -> String {
        let line = within(&SystemClock, LIMIT, self.0.next_line()).await;
        line.expect("a line in time").unwrap().expect("it has not ended")
    }

    /// The next line, which is JSON.
    pub(crate) async fn json(&mut self) -> serde_json::Value {
        json(&self.line().await)
    }
}

/// The one value that the text is.
#[track_caller]
pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// Looks again and again until `look` finds something.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = SystemClock.now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(SystemClock.now() < end, "no {what} within {LIMIT:?}");
        SystemClock.sleep_until(SystemClock.now() + LOOK).await;
    }
}

/// Reads stderr until `part` has come; what was read.
pub(crate) async fn until_said(child: &mut Child, part: &str) -> String {
    let stderr = child.stderr.as_mut().unwrap();
    let mut said = String::new();
    let read = async {
        while !said.contains(part) {
            let mut bytes = [0; 1024];
            let count = stderr.read(&mut bytes).await.unwrap();
            assert_ne!(count, 0, "ended without saying {part:?}: {said:?}");
            said += std::str::from_utf8(&bytes[..count]).unwrap();
        }
    };
    let done = within(&SystemClock, LIMIT, read).await;
    assert!(done.is_ok(), "{part:?} was not said: {said:?}");
    said
}

pub(crate) fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// Sends a signal to a process that this test has started.
pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(pid(child.id().expect("it still runs")), signal).unwrap();
}

/// The state of a process, as `ps` shows it.
pub(crate) fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // It stands behind the name, which may hold anything but ends with the last bracket.
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether there is such a process and it has not ended.
pub(crate) fn is_running(pid: Pid) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// What a script does to say that it lives: it writes the time since boot, again and again.
pub(crate) const BEATS: &str = "while :; do cat /proc/uptime >> beat; sleep 0.02; done";

/// How long ago.
pub(crate) fn since(moment: Moment) -> Duration {
    SystemClock.now().since(moment)
}

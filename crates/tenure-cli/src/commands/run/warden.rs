//! A process beside `tenure` that ends the command, and all that it has started, when `tenure`
//! cannot: because it was killed, or because it is stopped or held up while the lease runs out.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tenure::clock::Moment;

use super::offspring::{Whom, kill_all};
use crate::exit::Exit;
use crate::ourselves::OURSELVES;
use crate::owner_file;

/// The first word of the part.
pub(crate) const WARDEN: &str = "--warden";

const COMMAND: &str = "command";
const UNTIL: &str = "until";
const DISMISSED: &str = "dismissed";

/// What the warden says before it kills because time is over.
const STRIKES: &[u8] = b"strikes\n";

/// How long the warden looks for who is left.
const KILLING_MAX: Duration = Duration::from_secs(2);

/// `tenure`'s end of the line to the warden. If it closes without [`dismiss`](Self::dismiss), all
/// that the command has started is killed.
#[derive(Debug)]
pub(super) struct Warden {
    pid: Pid,
    line: ChildStdin,
    back: ChildStdout,
}

impl Warden {
    /// Whoever has `owner_file` in its environment is the command, or was started by it. What is
    /// known of it is told from the first moment on.
    pub(super) fn post(
        owner_file: &Path,
        command: Option<Pid>,
        until: Option<Moment>,
    ) -> io::Result<Self> {
        let mut child = Command::new(OURSELVES)
            .arg0("tenure")
            .arg(WARDEN)
            .arg(owner_file)
            .args(command.map(guarded))
            .args(until.map(trusted))
            // It may itself be under a `tenure`, whose warden must not take it for a command.
            .env_remove(owner_file::VARIABLE)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let line = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let back = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // A warden that is stopped must not hold us up.
        for end in [line.as_fd(), back.as_fd()] {
            fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { pid: Pid::from_child(&child), line, back })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Tells which process the command is.
    pub(super) fn guards(&mut self, command: Pid) {
        self.tell(&guarded(command));
    }

    /// The command may run until then, unless another word comes.
    pub(super) fn trusts(&mut self, until: Moment) {
        self.tell(&trusted(until));
    }

    /// Whether time was over, and it has killed the command or is about to.
    pub(super) fn strikes(&mut self) -> bool {
        matches!(self.back.read(&mut [0; STRIKES.len()]), Ok(1..))
    }

    /// All went as it should: it ends without doing anything.
    pub(super) fn dismiss(mut self) {
        self.tell(DISMISSED);
    }

    /// Words are so few that there is room for them as long as the warden reads. That it has ended
    /// is found out when it is buried.
    fn tell(&mut self, word: &str) {
        let _ = self.line.write_all(format!("{word}\n").as_bytes());
    }
}

fn guarded(command: Pid) -> String {
    format!("{COMMAND} {command}")
}

fn trusted(until: Moment) -> String {
    format!("{UNTIL} {}", until.as_nanos())
}

/// Watches until it is dismissed or `tenure` is gone.
pub(crate) fn watch(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(owner_file) = words.next() else { return Exit::Usage.into() };
    let mut mark = OsString::from(format!("{}=", owner_file::VARIABLE));
    mark.push(&owner_file);
    let mut whom = Whom { root: None, mark: mark.as_encoded_bytes().to_vec() };
    let Ok(timer) = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC) else {
        return Exit::Internal.into();
    };
    let told = words.filter_map(|word| parse(word.to_str()?));
    told.for_each(|word| obey(word, &mut whom, &timer));
    let mut heard = Heard::default();
    loop {
        let stdin = io::stdin();
        let mut files = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&timer, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => break,
        }
        let [line, time] = files.map(|file| !file.revents().is_empty());
        if line {
            match heard.next() {
                Some(words) if words.contains(&Word::Dismissed) => {
                    return ExitCode::SUCCESS;
                }
                Some(words) => {
                    words.into_iter().for_each(|word| obey(word, &mut whom, &timer));
                }
                None => break,
            }
        } else if time {
            // First of all, so that whoever finds the command killed can know why.
            let _ = rustix::io::write(rustix::stdio::stdout(), STRIKES);
            kill_all(&whom, KILLING_MAX);
            set(&timer, 0);
        }
    }
    kill_all(&whom, KILLING_MAX);
    let _ = std::fs::remove_file(owner_file);
    ExitCode::SUCCESS
}

fn obey(word: Word, whom: &mut Whom, timer: &impl AsFd) {
    match word {
        Word::Command(pid) => whom.root = Some(pid),
        Word::Until(nanos) => set(timer, nanos),
        Word::Dismissed => {}
    }
}

/// On the clock that counts suspend, as beliefs are; zero is never.
fn set(timer: &impl AsFd, nanos: u64) {
    let part = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let at = Timespec { tv_sec: part(nanos / 1_000_000_000), tv_nsec: part(nanos % 1_000_000_000) };
    let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = timerfd_settime(
        timer,
        TimerfdTimerFlags::ABSTIME,
        &Itimerspec { it_interval: interval, it_value: at },
    );
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Command(Pid),
    Until(u64),
    Dismissed,
}

/// What was read of the line, up to its last whole word.
#[derive(Debug, Default)]
struct Heard(Vec<u8>);

impl Heard {
    /// The words that are there; `None` when the line is closed.
    fn next(&mut self) -> Option<Vec<Word>> {
        let mut bytes = [0; 4096];
        // Not through the buffer of the standard library, of which `poll` knows nothing.
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
            Ok(0) | Err(_) => None,
            Ok(count) => Some(self.take(&bytes[..count])),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<Word> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.0.drain(..=end).collect();
        String::from_utf8_lossy(&whole).lines().filter_map(parse).collect()
    }
}

fn parse(line: &str) -> Option<Word> {
    match line.split_once(' ') {
        None => (line == DISMISSED).then_some(Word::Dismissed),
        Some((COMMAND, pid)) => pid.parse().ok().and_then(Pid::from_raw).map(Word::Command),
        Some((UNTIL, nanos)) => nanos.parse().ok().map(Word::Until),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_in_pieces() {
        let mut heard = Heard::default();
        assert_eq!(heard.take(b"until 4"), []);
        assert_eq!(heard.take(b"2\ndismi"), [Word::Until(42)]);
        assert_eq!(heard.take(b"ssed\nnonsense\n"), [Word::Dismissed]);
    }
}

//! All that a command has started, and what that has started in turn: found in `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use tenure::clock::{Clock, SystemClock};

use super::warden::WARDEN;

/// A process as it stood in `/proc`: its number may be another's later, both together may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: i32,
    is_dead: bool,
    started: u64,
}

/// Whom to kill from beside: those who descend from `root` or are it, and those with `mark` in
/// their environment.
#[derive(Clone, Debug)]
pub(super) struct Whom {
    pub(super) root: Option<Pid>,
    pub(super) mark: Vec<u8>,
}

/// The children that this process has now.
pub(super) fn children() -> Vec<Pid> {
    let me = getpid();
    let listed = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

/// Whether anyone lives who descends from this process, but for those that are `spared` and what
/// they have started. Nobody gets away as long as this process is the one that orphans fall to.
///
/// # Errors
/// When `/proc` cannot be read: that never means "nobody".
pub(super) fn is_left(spared: &[Pid]) -> io::Result<bool> {
    // While `/proc` is read, a parent can end and its child be seen under neither: look twice.
    for _ in 0..2 {
        if !family(getpid(), &all()?, spared).is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sends a signal to each of those. That someone is gone already is no failure.
///
/// # Errors
/// When `/proc` cannot be read.
pub(super) fn signal(spared: &[Pid], signal: Signal) -> io::Result<()> {
    family(getpid(), &all()?, spared).into_iter().for_each(|process| send(process, signal));
    Ok(())
}

/// Kills them, again and again, because one that is being killed may have started another, until
/// nobody is left or the time is over.
pub(super) fn kill_all(whom: &Whom, at_most: Duration) {
    let end = SystemClock.now() + at_most;
    // It takes a while to look at all there are on a busy machine.
    if let Some(root) = whom.root
        && let Ok(Some(command)) = look_at(root)
    {
        send(command, Signal::KILL);
    }
    let mut nobody = 0;
    while nobody < 2 && SystemClock.now() < end {
        // A look that fails finds nobody, and says nothing of who is left.
        let Ok(found) = found(whom) else { continue };
        nobody = if found.is_empty() { nobody + 1 } else { 0 };
        found.into_iter().for_each(|process| send(process, Signal::KILL));
    }
}

fn found(whom: &Whom) -> io::Result<Vec<Process>> {
    let (me, all) = (getpid(), all()?);
    let mut found = whom.root.map(|root| family(root, &all, &[me])).unwrap_or_default();
    let root = whom.root.and_then(|root| all.get(&root.as_raw_nonzero().get()));
    found.extend(root.filter(|root| !root.is_dead));
    let marked = all.values().filter(|process| !process.is_dead && process.pid != me);
    found.extend(marked.filter(|process| has_entry(process.pid, &whom.mark)));
    // Another warden has its own to kill, who may be nobody's descendants any more.
    found.retain(|process| !is_warden(process.pid));
    Ok(found)
}

fn is_warden(pid: Pid) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(WARDEN.as_bytes())
}

fn has_entry(pid: Pid, entry: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|found| found == entry)
}

/// Through a descriptor of the process, so that whoever got its number meanwhile gets nothing.
fn send(process: Process, signal: Signal) {
    if let Ok(handle) = pidfd_open(process.pid, PidfdFlags::empty())
        && let Ok(Some(now)) = look_at(process.pid)
        && now.started == process.started
    {
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// The living descendants of `root`.
fn family(root: Pid, all: &BTreeMap<i32, Process>, spared: &[Pid]) -> Vec<Process> {
    let root = root.as_raw_nonzero().get();
    let mut family = BTreeSet::from([root]);
    // A child may have a smaller number than its parent: numbers begin again.
    loop {
        let more: Vec<i32> = all
            .values()
            .filter(|process| family.contains(&process.parent) && !spared.contains(&process.pid))
            .map(|process| process.pid.as_raw_nonzero().get())
            .filter(|pid| !family.contains(pid))
            .collect();
        if more.is_empty() {
            break;
        }
        family.extend(more);
    }
    family.remove(&root);
    let members = family.iter().filter_map(|pid| all.get(pid));
    members.filter(|process| !process.is_dead).copied().collect()
}

/// All processes that can be seen.
fn all() -> io::Result<BTreeMap<i32, Process>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(pid) = Pid::from_raw(number)
            && let Some(process) = look_at(pid)?
        {
            all.insert(number, process);
        }
    }
    // Where we ourselves are not to be seen, what else is not says nothing.
    if all.contains_key(&getpid().as_raw_nonzero().get()) {
        Ok(all)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// The process as it stands; `None` when it is gone, or hidden because it is another user's.
fn look_at(pid: Pid) -> io::Result<Option<Process>> {
    match std::fs::read(format!("/proc/{pid}/stat")) {
        // The name in it may be no text.
        Ok(stat) => Ok(parse(pid, &String::from_utf8_lossy(&stat))),
        Err(error) if is_gone_or_hidden(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone_or_hidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// The name, in brackets, may hold anything, brackets and spaces too.
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        pid,
        is_dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_trouble() {
        let pid = getpid();
        let stat = "7 (a) S 1 ) R 42 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 1";
        let process = parse(pid, stat).unwrap();
        assert_eq!((process.parent, process.started, process.is_dead), (42, 9876, false));
        assert!(parse(pid, "7 (a) Z 1").is_none());
    }

    #[test]
    fn a_family_is_found_and_one_of_it_can_be_spared() {
        let number = |raw| Pid::from_raw(raw).unwrap();
        let one =
            |pid, parent, is_dead| (pid, Process { pid: number(pid), parent, is_dead, started: 0 });
        // 5 is the child of 9: numbers have begun again.
        let all = BTreeMap::from([
            one(3, 1, false),
            one(9, 3, true),
            one(5, 9, false),
            one(12, 3, false),
            one(13, 12, false),
        ]);
        let found = |spared: &[Pid]| -> Vec<i32> {
            let family = family(number(3), &all, spared);
            family.iter().map(|process| process.pid.as_raw_nonzero().get()).collect()
        };
        assert_eq!(found(&[]), [5, 12, 13]);
        assert_eq!(found(&[number(12)]), [5]);
    }
}

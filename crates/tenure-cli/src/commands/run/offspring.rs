//! All that a command has started, and what that has started in turn: found in `/proc`.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// A process as it stood in `/proc`: its number may be another's later, both together may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: i32,
    is_dead: bool,
    started: u64,
}

/// Whoever descends from this process and lives, but for those that are `spared`. None of them gets
/// away as long as this process is the one that orphans fall to.
pub(crate) fn living(spared: &[Pid]) -> Vec<Pid> {
    descendants(spared).into_iter().map(|process| process.pid).collect()
}

/// Sends a signal to each of [`living`]. That someone is gone already is no failure.
pub(crate) fn signal(spared: &[Pid], signal: Signal) {
    for process in descendants(spared) {
        send(process, signal);
    }
}

/// Kills every process that has this entry in its environment, until none is left or `tries` were
/// made: for whoever is no ancestor of theirs any more.
pub(crate) fn kill_marked(entry: &[u8], tries: usize) {
    let me = getpid();
    for _ in 0..tries {
        let marked = all().into_values().filter(|process| {
            process.pid != me && !process.is_dead && has_entry(process.pid, entry)
        });
        let marked: Vec<_> = marked.collect();
        if marked.is_empty() {
            return;
        }
        marked.into_iter().for_each(|process| send(process, Signal::KILL));
    }
}

fn has_entry(pid: Pid, entry: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|found| found == entry)
}

/// Through a descriptor of the process, so that whoever got its number meanwhile gets nothing.
fn send(process: Process, signal: Signal) {
    if let Ok(handle) = pidfd_open(process.pid, PidfdFlags::empty())
        && look_at(process.pid).is_some_and(|now| now.started == process.started)
    {
        let _ = pidfd_send_signal(handle, signal);
    }
}

fn descendants(spared: &[Pid]) -> Vec<Process> {
    let all = all();
    let mut family = BTreeSet::from([getpid().as_raw_nonzero().get()]);
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
    family.remove(&getpid().as_raw_nonzero().get());
    family
        .iter()
        .filter_map(|pid| all.get(pid))
        .filter(|process| !process.is_dead)
        .copied()
        .collect()
}

fn all() -> BTreeMap<i32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, look_at(Pid::from_raw(pid)?)?)))
        .collect()
}

fn look_at(pid: Pid) -> Option<Process> {
    parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
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
    fn a_child_is_found_and_can_be_spared() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(living(&[]).contains(&pid));
        assert!(!living(&[pid]).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!living(&[]).contains(&pid));
    }
}

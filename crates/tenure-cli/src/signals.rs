//! The signals that `tenure` outlives, to pass them on.

use std::fmt;
use std::future::poll_fn;
use std::task::Poll;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal;

/// All of them would end a process that does nothing about them.
const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2];

/// The signals sent to this process since it began to listen.
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    // Whoever started us may have had its children's ends ignored, and ours would be lost too.
    _child: unix::Signal,
}

impl Signals {
    /// Begins to listen; from here on none of them ends this process.
    ///
    /// One that was ignored when this process started (`nohup`, or `&` in a script) stays so, here
    /// and in the command.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let mut streams = Vec::with_capacity(PASSED_ON.len() + 1);
        // With a terminal the command is in our group, and the kernel suspends both, or neither
        // where nobody could have them go on.
        let suspension = (!terminal::is_there()).then_some(Signal::TSTP);
        for passed_on in PASSED_ON.into_iter().chain(suspension) {
            if !is_in(ignored, passed_on) {
                streams.push((passed_on, stream(SignalKind::from_raw(passed_on.as_raw()))?));
            }
        }
        Ok(Self { streams, _child: stream(SignalKind::child())? })
    }

    /// The next signal. Cancel-safe; one that came earlier is not missed.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(cx) == Poll::Ready(Some(())) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that is to end this process. One that is to suspend it does. Cancel-safe.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::TSTP => suspend(),
                signal => return signal,
            }
        }
    }
}

/// Suspends this process, as SIGTSTP would have. Returns when it is told to go on.
pub(crate) fn suspend() {
    let _ = kill_process(getpid(), Signal::STOP);
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.streams.iter().map(|(signal, _)| signal)).finish()
    }
}

fn stream(kind: SignalKind) -> Result<unix::Signal, Failure> {
    signal(kind)
        .map_err(|error| Failure::caused(Exit::Internal, "signals cannot be listened to", &error))
}

/// The signals this process ignores, as a mask. Only the kernel's own page tells without a call
/// that is unsafe; where there is none, nothing is taken to be ignored.
fn ignored() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored_in(&status))
}

fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, signal: Signal) -> bool {
    mask >> (signal.as_raw() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_mask_is_read() {
        let status = "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        let mask = ignored_in(status);
        assert!(is_in(mask, Signal::HUP) && is_in(mask, Signal::PIPE));
        assert!(!is_in(mask, Signal::INT) && !is_in(mask, Signal::TERM));
        assert_eq!(ignored_in("Name:\tx\n"), 0);
    }
}

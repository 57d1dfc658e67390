//! What is done to stores, networks and workers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A kind of fault, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// SIGKILL of a worker; another takes its place.
    WorkerKill,
    /// SIGSTOP of a worker.
    WorkerPause,
    /// The wall clock of a worker jumps, and later back.
    ClockStep,
    /// A worker is replaced by one whose timers and wall clock run at another rate.
    ClockRate,
    /// The server is ended in the hardest way that it claims to survive, and started again.
    ServerKill,
    /// The server is asked to end, and started again.
    ServerRestart,
    /// SIGSTOP of the server.
    ServerPause,
    /// The wall clock of the server jumps, and later back, where no lease is measured with it.
    ServerClockStep,
    /// All connections of some workers are closed, and no new ones are made.
    Cut,
    /// Requests vanish.
    LostRequests,
    /// Replies vanish.
    LostReplies,
    /// Now and then a reply vanishes, and its connection with it.
    LostReply,
    /// Requests arrive when nobody waits for their answer any more.
    LateRequests,
    /// Connections go silent in both directions, and stay so until someone gives them up.
    HalfOpen,
    /// Replies are late, and then nothing passes at all.
    Sinking,
    /// Everything is late.
    Latency,
    /// All connections are reset.
    Reset,
}

/// What kinds are directed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// A worker.
    Worker,
    /// The server.
    Server,
    /// The network between some workers and the server.
    Network,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 17] = [
        Self::WorkerKill,
        Self::WorkerPause,
        Self::ClockStep,
        Self::ClockRate,
        Self::ServerKill,
        Self::ServerRestart,
        Self::ServerPause,
        Self::ServerClockStep,
        Self::Cut,
        Self::LostRequests,
        Self::LostReplies,
        Self::LostReply,
        Self::LateRequests,
        Self::HalfOpen,
        Self::Sinking,
        Self::Latency,
        Self::Reset,
    ];

    /// What it is directed at.
    pub(crate) const fn aim(self) -> Aim {
        match self {
            Self::WorkerKill | Self::WorkerPause | Self::ClockStep | Self::ClockRate => Aim::Worker,
            Self::ServerKill | Self::ServerRestart | Self::ServerPause | Self::ServerClockStep => {
                Aim::Server
            }
            Self::Cut
            | Self::LostRequests
            | Self::LostReplies
            | Self::LostReply
            | Self::LateRequests
            | Self::HalfOpen
            | Self::Sinking
            | Self::Latency
            | Self::Reset => Aim::Network,
        }
    }

    /// Whether it can keep anybody from the store: a server's wall clock only tells the time.
    pub(crate) const fn is_outage(self) -> bool {
        !matches!(self, Self::ServerClockStep)
    }

    /// Whether it leaves connections behind that are of no use before somebody gives them up.
    pub(crate) const fn spoils_connections(self) -> bool {
        matches!(self, Self::LateRequests | Self::HalfOpen)
    }

    /// What it is, for people.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::WorkerKill => "SIGKILL of a worker",
            Self::WorkerPause => "SIGSTOP of a worker for 0.5, 1.5 or 3 × ttl",
            Self::ClockStep => {
                "a worker's wall clock jumps by an hour, and back after 4.5 s (libfaketime)"
            }
            Self::ClockRate => {
                "SIGKILL of a worker; the next one's timers run at 0.8, 1 or 1.25 × (libfaketime)"
            }
            Self::ServerKill => "the server is killed and started again",
            Self::ServerRestart => "the server is asked to end and started again",
            Self::ServerPause => "SIGSTOP of the server for 0.5 to 3 s",
            Self::ServerClockStep => {
                "the server's wall clock jumps by an hour, and back after 4.5 s (libfaketime)"
            }
            Self::Cut => "connections cut and refused",
            Self::LostRequests => "one-way cut: requests vanish",
            Self::LostReplies => "one-way cut: replies vanish",
            Self::LostReply => "single replies lost",
            Self::LateRequests => "requests arrive 2 to 4 s late",
            Self::HalfOpen => "connections go silent for good",
            Self::Sinking => "replies up to 1 s late, and then nothing",
            Self::Latency => "latency of 30 to 300 ms",
            Self::Reset => "connections reset",
        }
    }
}

/// A fault that is planned: what, when and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blow {
    /// When, from the beginning of the run.
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
    /// How long it lasts.
    pub(crate) length: Duration,
    /// Chooses the target among those that there are then.
    pub(crate) choice: u64,
}

/// A fault that was carried out. One line of the history of faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Struck {
    pub(crate) kind: Kind,
    /// What was hit, for people.
    pub(crate) target: String,
    /// Which part of the network; `None` where that is not what was hit.
    pub(crate) link: Option<usize>,
    /// When it began, in nanoseconds on the boot clock.
    pub(crate) begin: u64,
    /// When it was over.
    pub(crate) end: u64,
}

impl Struck {
    /// The number of the worker that was hit, if it was one.
    pub(crate) fn worker(&self) -> Option<u64> {
        self.target.strip_prefix("worker ")?.parse().ok()
    }
}

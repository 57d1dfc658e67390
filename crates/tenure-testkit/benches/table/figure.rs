//! The charts: what each shows, and how its points are drawn.

use crate::chart::{Axis, Bar, Bars, Dot, Goal, Lines, Scale, Series};
use crate::report::grouped;

/// One chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Cycle,
    Server,
    HandOff,
    HandOffLate,
    Keys,
    Waiters,
    Connections,
    Memory,
    Clients,
}

/// In the order in which they are shown.
pub(crate) const FIGURES: &[Figure] = &[
    Figure::Cycle,
    Figure::Server,
    Figure::HandOff,
    Figure::HandOffLate,
    Figure::Keys,
    Figure::Waiters,
    Figure::Connections,
    Figure::Memory,
    Figure::Clients,
];

/// Whose figure it is, and what it is called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Ours(&'a str),
    Theirs(&'a str),
}

/// One point of a chart.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) figure: Figure,
    pub(crate) name: String,
    pub(crate) is_theirs: bool,
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// What it rests on was too unsteady to judge by.
    pub(crate) is_unsure: bool,
}

/// What is said below a chart that has such a point.
const UNSURE: &str = "What has a question mark is nothing to judge by: what it rests on went up \
                      and down by more than a factor of two while it was measured, or was not \
                      seen often enough in every round.";

impl Point {
    pub(crate) fn new(figure: Figure, source: Source<'_>, x: f64, y: f64) -> Self {
        let (name, is_theirs) = match source {
            Source::Ours(name) => (name, false),
            Source::Theirs(name) => (name, true),
        };
        Self { figure, name: name.to_owned(), is_theirs, x, y, is_unsure: false }
    }

    pub(crate) fn bar(figure: Figure, source: Source<'_>, value: f64) -> Self {
        Self::new(figure, source, 0.0, value)
    }

    pub(crate) fn unsure_if(mut self, unsure: bool) -> Self {
        self.is_unsure = unsure;
        self
    }
}

/// What stands below the chart, and along it.
enum Shape {
    Bars { axis: Axis, goal: Option<Goal> },
    Lines { x: Axis, y: Axis },
}

impl Figure {
    /// The name of its file, without the ending.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::Server => "server",
            Self::HandOff => "hand-off",
            Self::HandOffLate => "hand-off-p99",
            Self::Keys => "keys",
            Self::Waiters => "waiters",
            Self::Connections => "connections",
            Self::Memory => "memory",
            Self::Clients => "clients",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Cycle => "An uncontended lock, beside the two raw commands",
            Self::Server => "Grants a second, 64 callers",
            Self::HandOff => "Hand-off to whoever waits: median",
            Self::HandOffLate => "Hand-off to whoever waits: 99th percentile",
            Self::Keys => "An acquire, by the keys that are held",
            Self::Waiters => "One hand-off, by the length of the line",
            Self::Connections => "Grants a second, by connections",
            Self::Memory => "Memory of a lease",
            Self::Clients => "Memory of a client of the server",
        }
    }

    /// What a reader has to know to judge it, with these points in it.
    pub(crate) fn caption(self, points: &[Point]) -> String {
        match points.iter().any(|point| point.figure == self && point.is_unsure) {
            true => format!("{} {UNSURE}", self.about()),
            false => self.about().to_owned(),
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Cycle => {
                "Acquire and release of a key that nobody else wants, kept alive meanwhile; 1.00 \
                 would be what the two commands of a lock by hand cost on the same server."
            }
            Self::Server => {
                "Each lock is taken and given back. tenure's server, etcd and Redis with \
                 `appendfsync always` answer when a grant is on the disk; with `everysec`, Redis \
                 answers before and may lose the last second of grants. Redis gives no fence. The \
                 set-ups are not alike: by REST and on Redis every caller has a connection of its \
                 own; by gRPC requests and on etcd all share four; on tenure's streams they share \
                 a few, in messages of many callers, and so do those of Redis with one connection."
            }
            Self::HandOff | Self::HandOffLate => {
                "For how long the key is free: from the start of a release to the grant of \
                 another, whoever that is; where the one who gave it back takes it again before, \
                 the time runs on. How long one waits is another matter: the longest wait of all, \
                 and how many got nothing in a round, stand beside the figures below. One \
                 contender stands against a holder in another process; more are spread over four \
                 processes, in each of which all share one client. Each holds the key for 5 ms. \
                 The medians of three rounds, in which tenure's server and its stores on Redis and \
                 etcd took turns with etcd's own lock, which queues its callers, and with the \
                 usual lock on Redis (`SET NX PX`, with `appendfsync always` and `everysec`), \
                 whose callers try again after 200 ms ± 100 ms: the defaults of node-redlock. \
                 etcd's own lock watches from a revision that has passed, and etcd serves a new \
                 watch of that kind only every 100 ms, long after a turn has ended: with one \
                 contender that is nearly all of the time. Object storage wakes nobody: there \
                 other processes look now and then. A round with fewer than 100 hand-offs has no \
                 99th percentile."
            }
            Self::Keys => {
                "The time of an acquire while so many other leases stand, in turns on a store of \
                 each size: medians. Each is a file or a server of its own, and a schema of one \
                 server of PostgreSQL. PostgreSQL, NATS and etcd were filled up to 100,000, object \
                 storage not at all."
            }
            Self::Waiters => {
                "All wait for one key, and each hands it on as soon as it has it: on `memory:` in \
                 one process, and as streams of the server, which syncs every grant."
            }
            Self::Connections => {
                "Every connection takes and gives back a lock of its own, one request at a time. \
                 Redis with `everysec` does not wait for the disk."
            }
            Self::Memory => {
                "Resident memory for each one more, where a million stand, with no guard that \
                 keeps it alive; of Redis, what it says that it uses for the same key and owner \
                 with an expiry."
            }
            Self::Clients => "Resident memory of the server for each one more that holds a lock.",
        }
    }

    fn shape(self) -> Shape {
        let axis = |label, scale, tick| Axis { label, scale, tick };
        let (linear, log) = (Scale::Linear, Scale::Log);
        match self {
            Self::Cycle => {
                let goal = Some(Goal { value: 1.25, name: "target: at most 1.25" });
                Shape::Bars { axis: axis("times the raw commands", linear, ratio), goal }
            }
            Self::Server => {
                Shape::Bars { axis: axis("grants a second", linear, grouped), goal: None }
            }
            Self::Memory | Self::Clients => {
                Shape::Bars { axis: axis("bytes", linear, grouped), goal: None }
            }
            Self::HandOff | Self::HandOffLate => {
                let x = axis("contenders", log, grouped);
                Shape::Lines { x, y: axis("from release to grant", log, time) }
            }
            Self::Keys => {
                let x = axis("keys held", log, grouped);
                Shape::Lines { x, y: axis("acquire", linear, time) }
            }
            Self::Waiters => {
                let x = axis("waiters", log, grouped);
                Shape::Lines { x, y: axis("per hand-off", log, time) }
            }
            Self::Connections => {
                let x = axis("connections", log, grouped);
                Shape::Lines { x, y: axis("grants a second", log, grouped) }
            }
        }
    }

    /// The chart of its points, with these lines below it; `None` when there are none.
    pub(crate) fn draw(self, points: &[Point], foot: &[String]) -> Option<String> {
        let points: Vec<&Point> = points.iter().filter(|point| point.figure == self).collect();
        if points.is_empty() {
            return None;
        }
        let (title, foot) = (self.title().to_owned(), foot.to_vec());
        Some(match self.shape() {
            Shape::Bars { axis, goal } => {
                let bars = points.iter().map(|point| Bar {
                    name: point.name.clone(),
                    value: point.y,
                    is_theirs: point.is_theirs,
                    is_unsure: point.is_unsure,
                });
                Bars { title, axis, bars: bars.collect(), goal, foot }.draw()
            }
            Shape::Lines { x, y } => Lines { title, x, y, series: series(&points), foot }.draw(),
        })
    }
}

/// The points of each name together.
fn series(points: &[&Point]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for point in points {
        let dot = Dot { x: point.x, y: point.y, is_unsure: point.is_unsure };
        match all.iter_mut().find(|series| series.name == point.name) {
            Some(series) => series.dots.push(dot),
            None => all.push(Series {
                name: point.name.clone(),
                dots: vec![dot],
                is_theirs: point.is_theirs,
            }),
        }
    }
    all
}

fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// With as many places as it needs, two at most.
fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Seconds, in the unit that suits them.
fn time(seconds: f64) -> String {
    // What a round figure may be off must not cost it its unit.
    let (factor, unit) = match seconds * (1.0 + 1e-9) {
        s if s <= 0.0 => return "0".to_owned(),
        s if s < 1e-6 => (1e9, "ns"),
        s if s < 1e-3 => (1e6, "µs"),
        s if s < 1.0 => (1e3, "ms"),
        _ => (1.0, "s"),
    };
    format!("{} {unit}", plain(seconds * factor))
}

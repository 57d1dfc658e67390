//! Waiting for the lock, and what is shown meanwhile: on a terminal a line that lives, otherwise a
//! line for each change.

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure::{ErrorKind, Guard, Key, LockRequest, Locks, Status, Waiting};

use crate::cli::OutputArgs;
use crate::failure::Failure;
use crate::plain::plain;
use crate::signals::{Signals, suspend};
use crate::spans::{ago, ms, span};
use crate::status_line::StatusLine;
use crate::style::{Style, Tone};
use crate::{say, terminal};

const FIRST_LOOK: Duration = Duration::from_millis(300);
const NEXT_LOOK: Duration = Duration::from_secs(1);

/// Waits for the lock, or for a signal to end.
pub(crate) async fn acquire(
    locks: &Locks,
    key: &Key,
    request: LockRequest,
    output: &OutputArgs,
    signals: &mut Signals,
) -> Result<Result<Guard, Signal>, Failure> {
    let mut live = LiveLine::new(key, output);
    let is_told = !output.quiet && live.is_none();
    let request = if is_told { request.on_wait(tell) } else { request };
    let mut acquired = pin!(request.acquire());
    loop {
        tokio::select! {
            biased;
            guard = &mut acquired => {
                return guard.map(Ok).map_err(|error| not_acquired(&error));
            }
            signal = signals.next() => match signal {
                Signal::TSTP => suspend(),
                signal => return Ok(Err(signal)),
            },
            () = LiveLine::live(live.as_mut(), locks) => {}
        }
    }
}

fn tell(waiting: &Waiting) {
    let Some(status) = &waiting.held_by else { return };
    let held_by = StatusLine::from(status);
    let details = json!({ "key": waiting.key.as_str(), "held_by": held_by });
    say::told("waiting", &details, || {
        format!("waiting for {:?}: held by {} (fence {})", waiting.key, status.holder, status.fence)
    });
}

/// Says that the lock is held here.
pub(crate) fn say_holding(guard: &Guard) {
    let (key, fence) = (guard.key(), guard.fence());
    let ttl_ms = ms(guard.ttl());
    let details = json!({ "key": key.as_str(), "fence": fence.get(), "ttl_ms": ttl_ms });
    say::told("holding", &details, || format!("holding {key:?} (fence {fence})"));
}

fn not_acquired(error: &tenure::Error) -> Failure {
    let failure = Failure::of_error(error);
    match error.kind() {
        ErrorKind::Held => failure.advise("use --wait to wait for it"),
        ErrorKind::TimedOut => failure.advise("use a longer --wait, or none to wait without end"),
        _ => failure,
    }
}

/// One line on a terminal that says how things stand, every second anew, and is gone in the end.
struct LiveLine<'a> {
    key: &'a Key,
    since: Moment,
    next: Moment,
    is_drawn: bool,
}

impl<'a> LiveLine<'a> {
    fn new(key: &'a Key, output: &OutputArgs) -> Option<Self> {
        let wanted = !output.quiet && !output.json && !output.verbose;
        let since = SystemClock.now();
        let next = since + FIRST_LOOK;
        (wanted && io::stderr().is_terminal()).then_some(Self { key, since, next, is_drawn: false })
    }

    /// Returns when the line was drawn once more, never where there is none.
    async fn live(line: Option<&mut Self>, locks: &Locks) {
        let Some(line) = line else { return std::future::pending().await };
        SystemClock.sleep_until(line.next).await;
        let status = locks.status(line.key.as_str()).await;
        let waited = SystemClock.now().since(line.since);
        let text = match &status {
            Ok(Some(status)) => describe(line.key, status, waited),
            Ok(None) => format!("waiting for {:?}, {}: it is free", line.key, span(waited)),
            Err(error) => format!("waiting for {:?}, {}: {error}", line.key, span(waited)),
        };
        line.draw(&text);
        line.next = SystemClock.now() + NEXT_LOOK;
    }

    fn draw(&mut self, text: &str) {
        let width = terminal::width(&io::stderr());
        let text: String = plain(text).chars().take(width.saturating_sub(1)).collect();
        let text = Style::of(&io::stderr()).paint(Tone::Faint, &text);
        let _ = io::stderr().write_all(format!("\r\u{1b}[K{text}").as_bytes());
        self.is_drawn = true;
    }
}

impl Drop for LiveLine<'_> {
    fn drop(&mut self) {
        if self.is_drawn {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

fn describe(key: &Key, status: &Status, waited: Duration) -> String {
    format!(
        "waiting for {key:?}, {}: held by {} since {}, ttl left {}, fence {}",
        span(waited),
        status.holder,
        ago(status.granted_at, SystemClock.wall()),
        span(status.remaining),
        status.fence
    )
}

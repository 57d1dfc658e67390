//! Waiting for the lock, and what is shown meanwhile: on a terminal a line that lives, otherwise a
//! line for each change.

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure::{ErrorKind, Guard, Key, LockRequest, Locks, Retry, Status, Waiting};

use crate::cli::OutputArgs;
use crate::failure::Failure;
use crate::plain::plain;
use crate::signals::{Signals, suspend};
use crate::spans::{ms, span};
use crate::status_line::StatusLine;
use crate::style::{Style, Tone};
use crate::trouble::Trouble;
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
    let asked = ask(locks, key, request, output, signals, || {}).await;
    asked.map_err(|error| not_acquired(&error))
}

/// As [`acquire`], through all failures of the store that may pass. They are said, and that they
/// have.
pub(crate) async fn acquire_at_last(
    locks: &Locks,
    key: &Key,
    request: LockRequest,
    output: &OutputArgs,
    signals: &mut Signals,
) -> Result<Result<Guard, Signal>, Failure> {
    let trouble = Arc::new(Trouble::default());
    loop {
        let heard = Arc::clone(&trouble);
        let heard = move || heard.is_over();
        match ask(locks, key, request.clone(), output, signals, heard).await {
            Err(error) if error.retry() != Retry::Never => trouble.tell(&error),
            asked => {
                trouble.is_over();
                return asked.map_err(|error| not_acquired(&error));
            }
        }
    }
}

/// Asks until it is granted or refused, or a signal comes. Calls `heard` when the store has said
/// that another holds the lock.
async fn ask(
    locks: &Locks,
    key: &Key,
    request: LockRequest,
    output: &OutputArgs,
    signals: &mut Signals,
    heard: impl Fn() + Send + Sync + 'static,
) -> tenure::Result<Result<Guard, Signal>> {
    let mut live = LiveLine::new(key, output);
    let is_told = !output.quiet && live.is_none();
    let request = request.on_wait(move |waiting| {
        heard();
        if is_told {
            tell(waiting);
        }
    });
    let mut acquired = pin!(request.acquire());
    loop {
        tokio::select! {
            biased;
            guard = &mut acquired => return guard.map(Ok),
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
    let failure = Failure::advised(error);
    match error.kind() {
        ErrorKind::Held => failure.advise("use --wait to wait for it"),
        ErrorKind::TimedOut => failure.advise("use a longer --wait, or none to wait without end"),
        ErrorKind::Unknown => failure
            .advise("nothing stays locked; 'tenure doctor' says what is wrong with the store"),
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
        terminal::redraw(&Style::of(&io::stderr()).paint(Tone::Faint, &text));
        self.is_drawn = true;
    }
}

impl Drop for LiveLine<'_> {
    fn drop(&mut self) {
        if self.is_drawn {
            terminal::redraw("");
        }
    }
}

/// What it says must fit on a line beside the name of a host.
fn describe(key: &Key, status: &Status, waited: Duration) -> String {
    // Clocks of two machines may say that it was granted later than now.
    let held = SystemClock.wall().duration_since(status.granted_at).unwrap_or_default();
    format!(
        "waiting for {key:?}, {}: held by {} for {}, ttl left {}, fence {}",
        span(waited),
        status.holder,
        span(held),
        span(status.remaining),
        status.fence
    )
}

//! The table kept up to date: on a terminal drawn anew, elsewhere printed again when it changed.

use std::io::{self, IsTerminal};

use rustix::termios::tcgetwinsize;
use serde_json::json;
use tenure::clock::{Clock, SystemClock};
use tenure::error::Chain;
use tenure::{Fence, Key, Locks, Retry, Status};
use tenure_api::rfc3339;

use super::table::Table;
use super::{ListArgs, NONE, leases};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::plain::plain;
use crate::signals::Signals;
use crate::status_line::StatusLine;
use crate::style::{Style, Tone};
use crate::trouble::Trouble;
use crate::{answer, open, say, store_url, terminal};

const HOME: &str = "\u{1b}[H";
const CLEAR: &str = "\u{1b}[2J";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_REST: &str = "\u{1b}[J";

/// The head, and the line below the table.
const LINES_BESIDES: usize = 2;

/// A list that is looked at again and again.
pub(super) struct Live<'a> {
    args: &'a ListArgs,
    store: String,
    signals: Signals,
    is_drawn: bool,
    trouble: Trouble,
    /// The grants that were printed last.
    printed: Option<Vec<(Key, Fence)>>,
}

impl<'a> Live<'a> {
    pub(super) fn new(args: &'a ListArgs) -> Result<Self, Failure> {
        let store = store_url::locate(args.store.place.url.as_deref())?.label().to_owned();
        let is_drawn = !args.output.json && io::stdout().is_terminal();
        let (signals, trouble) = (Signals::listen()?, Trouble::default());
        Ok(Self { args, store, signals, is_drawn, trouble, printed: None })
    }

    /// Looks and shows until a signal comes. Ctrl-C is how a person ends it, so that is success.
    pub(super) async fn run(mut self) -> Result<Exit, Failure> {
        let (store, verbose) = (&self.args.store, self.args.output.verbose);
        let locks = tokio::select! {
            biased;
            locks = open::locks(store, verbose, open::USUAL_TTL) => locks?,
            signal = self.signals.end() => return Ok(Exit::of_ended_by(signal)),
        };
        if self.is_drawn {
            answer::raw(CLEAR)?;
        }
        loop {
            let next = SystemClock.now() + self.args.every;
            let signal = tokio::select! {
                biased;
                signal = self.signals.end() => Some(signal),
                seen = leases(&locks, &self.args.prefix) => {
                    self.show(&locks, seen)?;
                    None
                }
            };
            if let Some(signal) = signal {
                return Ok(Exit::of_ended_by(signal));
            }
            tokio::select! {
                signal = self.signals.end() => return Ok(Exit::of_ended_by(signal)),
                () = SystemClock.sleep_until(next) => {}
            }
        }
    }

    fn show(&mut self, locks: &Locks, seen: tenure::Result<Vec<Status>>) -> Result<(), Failure> {
        match seen {
            Err(error) if error.retry() == Retry::Never => Err(Failure::advised(&error)),
            Ok(all) if self.is_drawn => self.draw(&all, locks),
            Ok(all) => {
                self.trouble.is_over();
                self.print(&all)
            }
            Err(error) if self.is_drawn => {
                let text = cut(&format!("{}; trying again", Chain(&error)));
                let text = Style::of(&io::stdout()).paint(Tone::Bad, &text);
                answer::raw(&format!("{}{text}", terminal::ERASE))
            }
            Err(error) => {
                self.trouble.tell(&error);
                Ok(())
            }
        }
    }

    /// Over what was drawn before, line by line: a screen that is cleared first flickers.
    fn draw(&self, all: &[Status], locks: &Locks) -> Result<(), Failure> {
        let rows = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let room = rows.saturating_sub(LINES_BESIDES).max(1);
        let mut table = Table::new(all, SystemClock.wall());
        table.keep(room);
        let width = terminal::known_width(&io::stdout());
        let mut text = HOME.to_owned();
        for line in table.render(width).lines() {
            text += line;
            text += CLEAR_LINE;
            text += "\r\n";
        }
        let shown = if all.len() > room { format!(", {room} shown") } else { String::new() };
        let count = match all.len() {
            0 => NONE.to_owned(),
            1 => "1 lock".to_owned(),
            count => format!("{count} locks"),
        };
        let name = if self.store.is_empty() { locks.store().name } else { &self.store };
        let foot = cut(&format!("{count}{shown} on {name}"));
        text += &Style::of(&io::stdout()).paint(Tone::Faint, &foot);
        answer::raw(&(text + CLEAR_REST))
    }

    /// Prints what there is, if a lock was granted or has ended since the last time.
    fn print(&mut self, all: &[Status]) -> Result<(), Failure> {
        let grants: Vec<_> = all.iter().map(|status| (status.key.clone(), status.fence)).collect();
        if self.printed.as_ref() == Some(&grants) {
            return Ok(());
        }
        let is_first = self.printed.replace(grants).is_none();
        if self.args.output.json {
            let locks: Vec<_> = all.iter().map(StatusLine::from).collect();
            let at = rfc3339::milliseconds(SystemClock.wall());
            return answer::json(&json!({ "at": at, "locks": locks }));
        }
        if all.is_empty() {
            if !self.args.output.quiet {
                say::progress(&NONE);
            }
            return Ok(());
        }
        let table = Table::new(all, SystemClock.wall()).render(None);
        answer::raw(&if is_first { table } else { format!("\n{table}") })
    }
}

/// The text as it fits into one line of the terminal.
fn cut(text: &str) -> String {
    let width = terminal::known_width(&io::stdout()).unwrap_or(usize::MAX);
    plain(text).chars().take(width).collect()
}

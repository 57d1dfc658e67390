//! The vigil over a command: a warden as long as the command runs, and another when one is gone.

use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use tenure::clock::{Clock, Moment, SystemClock};

use super::warden::Warden;
use crate::say;

/// How soon after a warden another is posted, at the soonest.
const NEXT: Duration = Duration::from_secs(1);

/// What the warden has to know, and the warden, if there is one.
#[derive(Debug)]
pub(super) struct Vigil {
    warden: Option<Warden>,
    posted: Moment,
    command: Option<Pid>,
    until: Option<Moment>,
    has_struck: bool,
    /// Whether a warden was ended, and it was not said yet.
    is_lost: bool,
    /// Whether it was said that there is no warden.
    is_told: bool,
}

impl Vigil {
    /// Posts a warden over whoever has `owner_file` in its environment.
    pub(super) fn begin(owner_file: &Path, until: Option<Moment>) -> Self {
        let posted = SystemClock.now();
        let mut vigil = Self {
            warden: None,
            posted,
            command: None,
            until,
            has_struck: false,
            is_lost: false,
            is_told: false,
        };
        vigil.post(owner_file);
        vigil
    }

    /// Tells which process the command is.
    pub(super) fn guards(&mut self, command: Pid) {
        self.command = Some(command);
        self.warden.iter_mut().for_each(|warden| warden.guards(command));
    }

    /// The command may run until then, unless another word comes. A warden that is gone is
    /// replaced.
    pub(super) fn trusts(&mut self, owner_file: &Path, until: Option<Moment>) {
        self.until = until.or(self.until);
        if self.is_to_be_renewed() {
            self.post(owner_file);
        } else if let Some(until) = until {
            self.warden.iter_mut().for_each(|warden| warden.trusts(until));
        }
        // Only then: whoever does not read this must not keep another from being posted.
        if self.warden.is_some() && std::mem::take(&mut self.is_lost) {
            say::error(&"warning: the process that watches over the command was ended");
        }
    }

    /// Whether there is no warden, and it is time for another.
    pub(super) fn is_to_be_renewed(&self) -> bool {
        self.warden.is_none() && SystemClock.now() >= self.posted + NEXT
    }

    /// Whether a warden has killed the command, or is about to, because time was over.
    pub(super) fn has_struck(&mut self) -> bool {
        self.has_struck |= self.warden.as_mut().is_some_and(Warden::strikes);
        self.has_struck
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.warden.as_ref().map(Warden::pid)
    }

    /// A child of this process has ended; it may have been the warden.
    pub(super) fn bury(&mut self, pid: Pid) {
        if self.pid() == Some(pid) {
            self.has_struck();
            self.warden = None;
            self.is_lost = true;
        }
    }

    /// All went as it should.
    pub(super) fn end(self) {
        self.warden.into_iter().for_each(Warden::dismiss);
    }

    fn post(&mut self, owner_file: &Path) {
        self.posted = SystemClock.now();
        match Warden::post(owner_file, self.command, self.until) {
            Ok(warden) => self.warden = Some(warden),
            Err(error) if !self.is_told => {
                let what = "what the command starts may outlive a tenure that is killed or stopped";
                say::error(&format_args!("warning: {what}: {error}"));
                self.is_told = true;
            }
            Err(_) => {}
        }
    }
}

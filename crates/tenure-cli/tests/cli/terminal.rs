//! A terminal, for what behaves otherwise on one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The person's end of a terminal.
pub(crate) struct Terminal {
    person: File,
    program: File,
    shown: Vec<u8>,
}

impl Terminal {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        // No program has the person's end: when that is closed, the terminal hangs up.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let path = ptsname(&person, Vec::new()).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&person, size).unwrap();
        let flags = fcntl_getfl(person.as_fd()).unwrap();
        fcntl_setfl(person.as_fd(), flags | OFlags::NONBLOCK).unwrap();
        let mut options = File::options();
        let program = options.read(true).write(true).open(path.to_str().unwrap()).unwrap();
        Self { person: person.into(), program, shown: Vec::new() }
    }

    /// The program's end of it.
    pub(crate) fn stream(&self) -> Stdio {
        self.program.try_clone().unwrap().into()
    }

    /// All that was shown so far.
    pub(crate) fn read(&mut self) -> Option<String> {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.person.read(&mut bytes) {
            self.shown.extend(&bytes[..count]);
        }
        Some(String::from_utf8_lossy(&self.shown).into_owned())
    }

    /// What a person types.
    pub(crate) fn write(&mut self, text: &str) {
        self.person.write_all(text.as_bytes()).unwrap();
    }
}

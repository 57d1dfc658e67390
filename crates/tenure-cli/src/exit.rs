//! The exit codes: one place for their numbers and what they mean.

use std::process::{ExitCode, ExitStatus};

use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use tenure::{Error, ErrorKind, Operation};

/// How `tenure` ends. The numbers are those of `sysexits.h` and of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command ended by itself: its own code.
    Command(u8),
    /// The command was killed by this signal, or `tenure` was told to end while it waited: 128 and
    /// the signal's number.
    Signal(u8),
    /// 1: the answer is no: the key is free, or its lease is not the one that was meant.
    No,
    /// 64: the command line is wrong.
    Usage,
    /// 69: the store cannot be used: unavailable, damaged, denied or unsuitable.
    Store,
    /// 70: a fault of `tenure` itself or of the system below it.
    Internal,
    /// 75: the lock was not acquired: held by another, or the wait was over. The command was not
    /// run.
    NotAcquired,
    /// 76: the lock was lost while the command ran, and the command was stopped.
    Lost,
    /// 126: the command cannot be executed.
    NotExecutable,
    /// 127: the command was not found.
    NotFound,
}

impl Exit {
    /// All went well.
    pub(crate) const SUCCESS: Self = Self::Command(0);

    /// The code that the operating system gets.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Command(code) => code,
            Self::Signal(number) => number.saturating_add(128),
            Self::No => 1,
            Self::Usage => 64,
            Self::Store => 69,
            Self::Internal => 70,
            Self::NotAcquired => 75,
            Self::Lost => 76,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }

    /// As the command ended, so does `tenure`.
    pub(crate) fn of_command(status: ExitStatus) -> Self {
        let small = |number: i32| u8::try_from(number).ok();
        match (status.code().and_then(small), status.signal().and_then(small)) {
            (Some(code), _) => Self::Command(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Internal,
        }
    }

    /// `tenure` was told to end by this signal before the command ran.
    pub(crate) fn of_signal(signal: Signal) -> Self {
        u8::try_from(signal.as_raw()).map_or(Self::Internal, Self::Signal)
    }

    /// A command that goes on until it is ended was ended by this signal. Ctrl-C is how a person
    /// does that, so that is success.
    pub(crate) fn of_ended_by(signal: Signal) -> Self {
        if signal == Signal::INT { Self::SUCCESS } else { Self::of_signal(signal) }
    }

    /// What an error of the library comes to.
    pub(crate) fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Held | ErrorKind::TimedOut => Self::NotAcquired,
            ErrorKind::Lost => Self::Lost,
            ErrorKind::NotFound | ErrorKind::WrongOwner => Self::No,
            ErrorKind::Unavailable
            | ErrorKind::Unknown
            | ErrorKind::Unsupported
            | ErrorKind::Denied
            | ErrorKind::Mismatch
            | ErrorKind::Damaged => Self::Store,
            // Key, namespace and ttl were checked with the command line: what is still wrong when
            // the store is opened is the place of the store.
            ErrorKind::Invalid if error.operation() == Some(Operation::Open) => Self::Store,
            ErrorKind::Invalid => Self::Usage,
            _ => Self::Internal,
        }
    }
}

/// What every command may end with.
const SHARED: [(Exit, &str); 3] = [
    (Exit::Usage, "the command line is wrong"),
    (Exit::Store, "the store cannot be used: unavailable, damaged, denied or unsuitable"),
    (Exit::Internal, "a fault of tenure itself or of the system"),
];

/// The end of a command's help: `examples`, and behind them the codes that it ends with, these and
/// the shared ones.
pub(crate) fn help(examples: &str, codes: &[(Exit, &str)]) -> String {
    let own = |exit: Exit| codes.iter().any(|(code, _)| *code == exit);
    let shared = SHARED.iter().filter(|(exit, _)| !own(*exit));
    let mut rows: Vec<_> = codes.iter().chain(shared).collect();
    rows.sort_by_key(|(exit, _)| exit.code());
    let rows: String =
        rows.iter().map(|(exit, text)| format!("\n  {:>3}  {text}", exit.code())).collect();
    format!("{examples}\n\nExit codes:{rows}")
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_s_end_is_ours() {
        // As wait(2) gives them: the code in the second byte, the signal in the first.
        assert_eq!(Exit::of_command(ExitStatus::from_raw(3 << 8)).code(), 3);
        assert_eq!(Exit::of_command(ExitStatus::from_raw(255 << 8)).code(), 255);
        assert_eq!(Exit::of_command(ExitStatus::from_raw(9)).code(), 137);
        assert_eq!(Exit::of_signal(Signal::INT).code(), 130);
    }

    #[test]
    fn a_store_that_cannot_be_opened_is_no_usage_error() {
        let error = Error::invalid("no such folder");
        assert_eq!(Exit::of_error(&error), Exit::Usage);
        assert_eq!(Exit::of_error(&error.during(Operation::Open)), Exit::Store);
    }

    #[test]
    fn held_is_never_confused_with_down() {
        let exit = |kind| Exit::of_error(&Error::new(kind, "x"));
        assert_eq!(exit(ErrorKind::Held), Exit::NotAcquired);
        assert_eq!(exit(ErrorKind::TimedOut), Exit::NotAcquired);
        assert_eq!(exit(ErrorKind::Unavailable), Exit::Store);
        assert_eq!(exit(ErrorKind::Unknown), Exit::Store);
        assert_eq!(exit(ErrorKind::Lost), Exit::Lost);
    }

    #[test]
    fn a_lease_that_is_not_there_is_a_plain_no() {
        for kind in [ErrorKind::NotFound, ErrorKind::WrongOwner] {
            assert_eq!(Exit::of_error(&Error::new(kind, "x")).code(), 1);
        }
    }

    #[test]
    fn the_codes_stand_in_order_and_once() {
        let text = help("Examples: none", &[(Exit::Store, "refused"), (Exit::No, "free")]);
        let codes: Vec<_> = text.lines().skip(3).collect();
        assert_eq!(codes[0], "    1  free");
        assert_eq!(codes[2], "   69  refused");
        assert_eq!(codes.len(), 4, "{text}");
    }
}

//! What a command answers: lines on stdout, for people or as JSON.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::plain::plain;

/// Writes a line for people, without what could steer their terminal.
///
/// # Errors
/// A silent one when nobody reads any more, which is no failure: it only ends the command.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    raw(&format!("{}\n", plain(text)))
}

/// Writes one line of JSON. It has no control characters, whatever is in it.
///
/// # Errors
/// As [`line`].
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::caused(Exit::Internal, "the answer is no JSON", &error))?;
    raw(&format!("{text}\n"))
}

/// What was written, for a command whose exit code is an answer too: that nobody reads any more
/// does not change it.
///
/// # Errors
/// As [`line`], but none that is silent.
pub(crate) fn heard_or_not(written: Result<(), Failure>) -> Result<(), Failure> {
    written.or_else(|failure| if failure.is_silent() { Ok(()) } else { Err(failure) })
}

/// Writes text that is known to be safe: styled, or a document of our own.
///
/// # Errors
/// As [`line`].
pub(crate) fn raw(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::silent(Exit::SUCCESS)
        } else {
            Failure::caused(Exit::Internal, "stdout cannot be written", &error)
        }
    })
}

//! What `tenure` says about what it does: whole lines on stderr, for people or as JSON.

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::json;
use tenure::error::Chain;

use crate::failure::Failure;
use crate::plain::plain;

/// One for the whole process, because errors are said where no command line is known any more.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on each line is JSON.
pub(crate) fn in_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Whether each line is JSON.
pub(crate) fn is_in_json() -> bool {
    AS_JSON.load(Ordering::Relaxed)
}

/// Says that something failed or went another way than asked.
pub(crate) fn error(what: &dyn Display) {
    told("warning", &json!({ "message": what.to_string() }), || format!("tenure: {what}"));
}

/// Says that a lock which is not needed any more stays for a while.
pub(crate) fn not_given_back(why: &tenure::Error) {
    let why = Chain(why);
    error(&format_args!("warning: the lock was not given back and ends with its ttl: {why}"));
}

/// Says why the command ends otherwise than asked.
pub(crate) fn failure(failure: &Failure) {
    let details = json!({ "message": failure.to_string(), "exit": failure.exit().code() });
    told("failed", &details, || format!("tenure: {failure}"));
}

/// Says how things stand.
pub(crate) fn progress(what: &dyn Display) {
    told("progress", &json!({ "message": what.to_string() }), || what.to_string());
}

/// Says that something happened: `details` to a program, `text` to a person.
pub(crate) fn told(event: &str, details: &impl Serialize, text: impl FnOnce() -> String) {
    if is_in_json() {
        let details = serde_json::to_value(details).unwrap_or_default();
        let mut members = serde_json::Map::from_iter([("event".to_owned(), event.into())]);
        members.extend(details.as_object().cloned().unwrap_or_default());
        write(&serde_json::Value::Object(members).to_string());
    } else {
        write(&plain(&text()));
    }
}

/// One write, so that lines of several processes do not mix. Nobody to read it is no failure.
fn write(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

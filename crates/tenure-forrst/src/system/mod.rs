//! The functions of the protocol itself, each under both of its names.

mod cancel;
mod diagnostics;
mod discovery;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod locks;

use serde_json::{Map, Value};

pub(crate) use cancel::cancel;
pub(crate) use diagnostics::{health, ping};
pub(crate) use discovery::{About, capabilities, describe};
pub(crate) use locks::{force_release, release, status};

/// The version of every function of the protocol.
pub(crate) const VERSION: &str = "1.0.0";

pub(crate) const CANCEL: &str = "urn:cline:forrst:ext:cancellation:fn:cancel";
pub(crate) const CAPABILITIES: [&str; 2] =
    ["urn:cline:forrst:fn:capabilities", "urn:cline:forrst:ext:discovery:fn:capabilities"];
pub(crate) const DESCRIBE: [&str; 2] =
    ["urn:cline:forrst:fn:describe", "urn:cline:forrst:ext:discovery:fn:describe"];

/// Whether the result goes out without an envelope: the description of everything does.
pub(crate) fn is_bare(function: &str, arguments: &Map<String, Value>) -> bool {
    DESCRIBE.contains(&function) && !arguments.contains_key("function")
}

//! The protocol that is spoken here.

use serde::Serialize;

pub(crate) const NAME: &str = "forrst";
pub(crate) const VERSION: &str = "0.1.0";

/// `protocol` of every document.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Protocol {
    name: &'static str,
    version: &'static str,
}

pub(crate) const PROTOCOL: Protocol = Protocol { name: NAME, version: VERSION };

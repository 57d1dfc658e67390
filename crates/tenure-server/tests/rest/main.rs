//! Every route of the REST API and every error, with curl.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod curl;
mod document;
mod locks;
mod refusals;
mod streams;

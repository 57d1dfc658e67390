//! Every route of the REST API and every error, with curl.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod audit;
mod curl;
mod document;
#[path = "../wire/failing.rs"]
mod failing;
mod locks;
mod refusals;
#[path = "../wire/routes.rs"]
mod routes;
mod store_errors;
mod streams;

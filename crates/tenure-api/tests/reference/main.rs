//! `docs/api.md` is what the OpenAPI document and the protocol buffers say.
//!
//! `TENURE_BLESS=1 cargo test -p tenure-api --test reference` writes it anew.

#![allow(clippy::unwrap_used)]

mod grpc;
mod http;

use std::fs;
use std::path::Path;

const BEGINNING: &str = "\
# API reference

Every route, method, message and field, made from the OpenAPI document
(`crates/tenure-api/openapi/tenure.json`, which the server serves as `/v1/openapi.json`) and from
the protocol buffers (`crates/tenure-api/proto/`). A test fails when this page says something else.
[server.md](server.md) shows how it is used and what the errors mean, [dapr.md](dapr.md) Dapr's API
over HTTP.
";

/// A table, if it has rows.
fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |");
    let mut text = line(heads.iter().map(ToString::to_string).collect());
    text += &format!("|{}\n", "---|".repeat(heads.len()));
    for row in rows {
        text += &line(row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect());
    }
    text + "\n"
}

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let made = format!("{BEGINNING}\n{}{}", http::reference(), grpc::reference());
    let made = format!("{}\n", made.trim_end());
    if std::env::var_os("TENURE_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let is_same = fs::read_to_string(&path).unwrap_or_default() == made;
    assert!(is_same, "docs/api.md is not what the API says; run this test with TENURE_BLESS=1");
}

//! The documented configuration is the one that the server reads.

#![allow(clippy::unwrap_used)]

use tenure_server::config::Config;
use toml::{Table, Value};

const DOCUMENTED: &str = include_str!("../../../deploy/tenure.toml");

/// The document with its examples switched on: every line that is a setting behind a `#`.
fn with_examples() -> String {
    let is_name = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_lowercase() || "_.0123456789".contains(c))
    };
    let is_table = |line: &str| {
        let inner = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.map(|inner| inner.trim_start_matches('[').trim_end_matches(']'));
        inner.is_some_and(is_name)
    };
    let is_setting = |line: &str| line.split_once(" = ").is_some_and(|(name, _)| is_name(name));
    let is_item = |line: &str| line.starts_with("  { ") || line == "]";
    DOCUMENTED
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(line) if is_table(line) || is_setting(line) || is_item(line) => line,
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_document_is_a_configuration_with_and_without_its_examples() {
    let plain = Config::parse(DOCUMENTED).unwrap();
    let usual = Config::default();
    assert_eq!(format!("{:?}", plain.limits), format!("{:?}", usual.limits));
    let whole = Config::parse(&with_examples()).unwrap();
    assert!(whole.tls.is_some() && whole.audit.is_some() && whole.trace.is_some());
    assert!(whole.app_health.is_some() && whole.anonymous.is_some());
    assert_eq!((whole.tokens.len(), whole.certificates.len(), whole.stores.len()), (1, 1, 2));
    assert_eq!((whole.dapr.http_port, whole.dapr.grpc_port), (Some(3500), Some(50001)));
}

/// No setting has this name.
const STRANGER: &str = "no_such_setting";

/// The settings of a table, by the reader's own words: it names them when it finds a stranger
/// among them. `None` for a table whose names are the user's.
fn settings(document: &Table) -> Option<Vec<String>> {
    let error = document.clone().try_into::<Config>().unwrap_err().message().to_owned();
    let expected = error.strip_prefix(&format!("unknown field `{STRANGER}`, expected "))?;
    Some(expected.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// What the document lacks in this table and in those within it. `with_stranger` makes a document
/// that has a stranger in this table.
fn missing(path: &str, table: &Table, with_stranger: &dyn Fn(Table) -> Table) -> Vec<String> {
    let mut strange = table.clone();
    strange.insert(STRANGER.to_owned(), Value::Boolean(true));
    let known = settings(&with_stranger(strange)).unwrap_or_default();
    let absent = known.iter().filter(|name| !table.contains_key(*name));
    let mut missing: Vec<_> = absent.map(|name| format!("{path}{name}")).collect();
    for (name, value) in table {
        let put = |value: Value| {
            let mut table = table.clone();
            table.insert(name.clone(), value);
            with_stranger(table)
        };
        let path = format!("{path}{name}.");
        match value {
            Value::Table(inner) => {
                missing.extend(self::missing(&path, inner, &|inner| put(inner.into())));
            }
            Value::Array(items) => {
                let first = items.first().and_then(Value::as_table);
                let put = |inner: Table| put(Value::Array(vec![inner.into()]));
                missing
                    .extend(first.into_iter().flat_map(|inner| self::missing(&path, inner, &put)));
            }
            _ => {}
        }
    }
    missing
}

#[test]
fn the_document_has_every_setting() {
    let document: Table = with_examples().parse().unwrap();
    let lacking = missing("", &document, &|document| document);
    // Every store has the same settings: one of them shows all.
    let lacking: Vec<_> =
        lacking.iter().filter(|path| !path.starts_with("stores.shared.")).collect();
    assert!(lacking.is_empty(), "deploy/tenure.toml does not tell of {lacking:?}");
}

#[test]
fn a_setting_that_is_not_in_the_document_is_found() {
    let mut document: Table = with_examples().parse().unwrap();
    document["limits"].as_table_mut().unwrap().remove("ping");
    document["tokens"][0].as_table_mut().unwrap().remove("grants");
    document.remove("trace");
    let lacking = missing("", &document, &|document| document);
    for path in ["limits.ping", "tokens.grants", "trace"] {
        assert!(lacking.iter().any(|lack| lack == path), "{path} in {lacking:?}");
    }
}

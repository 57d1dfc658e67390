//! The documented configuration is the one that the server reads.

#![allow(clippy::unwrap_used)]

use tenure_server::config::Config;

const DOCUMENTED: &str = include_str!("../../../deploy/tenure.toml");

/// The document with its examples switched on: every line that is a setting behind a `#`.
fn with_examples() -> String {
    let is_setting = |line: &str| {
        let name = line.split(['=', '[', '{', ']', '}']).next().unwrap_or_default().trim();
        line.starts_with(['[', ' ', ']'])
            || (line.contains(" = ")
                && name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()))
    };
    DOCUMENTED
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(setting) if is_setting(setting) => setting,
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

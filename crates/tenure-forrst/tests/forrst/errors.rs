//! The table of errors, against what the specification and the reference say.

use tenure_forrst::ForrstCode;

/// Code, HTTP status, and whether it is worth another try. Where the two differ
/// (`DEADLINE_EXCEEDED`), the specification's.
const TABLE: &str = "
    PARSE_ERROR 400 no
    INVALID_REQUEST 400 no
    INVALID_PROTOCOL_VERSION 400 no
    FUNCTION_NOT_FOUND 404 no
    VERSION_NOT_FOUND 404 no
    FUNCTION_DISABLED 503 yes
    INVALID_ARGUMENTS 400 no
    SCHEMA_VALIDATION_FAILED 422 no
    EXTENSION_NOT_SUPPORTED 400 no
    EXTENSION_NOT_APPLICABLE 400 no
    UNAUTHORIZED 401 no
    FORBIDDEN 403 no
    NOT_FOUND 404 no
    CONFLICT 409 no
    GONE 410 no
    DEADLINE_EXCEEDED 408 yes
    RATE_LIMITED 429 yes
    INTERNAL_ERROR 500 yes
    UNAVAILABLE 503 yes
    DEPENDENCY_ERROR 502 yes
    IDEMPOTENCY_CONFLICT 409 no
    IDEMPOTENCY_PROCESSING 409 yes
    ASYNC_OPERATION_NOT_FOUND 404 no
    ASYNC_OPERATION_FAILED 500 no
    ASYNC_CANNOT_CANCEL 400 no
    SERVER_MAINTENANCE 503 yes
    FUNCTION_MAINTENANCE 503 yes
    REPLAY_NOT_FOUND 404 no
    REPLAY_EXPIRED 410 no
    REPLAY_ALREADY_COMPLETE 409 no
    REPLAY_CANCELLED 410 no
    CANCELLED 499 no
    CANCELLATION_TOKEN_UNKNOWN 404 no
    CANCELLATION_TOO_LATE 409 no
    LOCK_ACQUISITION_FAILED 423 yes
    LOCK_TIMEOUT 423 yes
    LOCK_NOT_FOUND 404 no
    LOCK_OWNERSHIP_MISMATCH 403 no
    LOCK_ALREADY_RELEASED 409 no
";

#[test]
fn every_code_has_the_status_of_the_specification() {
    let mut expected: Vec<String> =
        TABLE.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    // tenure's own.
    expected.push("LOCK_LOST 409 no".to_owned());
    expected.sort();
    let row = |code: ForrstCode| {
        let row = code.fault();
        format!("{} {} {}", row.name, row.http, if row.retryable { "yes" } else { "no" })
    };
    let mut rows: Vec<String> = ForrstCode::ALL.into_iter().map(row).collect();
    rows.sort();
    assert_eq!(rows, expected);
}

/// The rows of the page: a code, its status, and when it comes.
fn page() -> Vec<(&'static str, u16)> {
    let page = include_str!("../../../../docs/forrst.md");
    let (_, table) = page.split_once("\n## Errors\n").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        (cells[0].trim_matches('`'), cells[1].parse().unwrap())
    })
    .collect()
}

#[test]
fn the_page_has_the_statuses_of_the_table_and_every_code_of_locks() {
    let page = page();
    for (name, http) in &page {
        let code = ForrstCode::ALL.into_iter().find(|code| code.name() == *name);
        assert_eq!(code.map(|code| code.fault().http), Some(*http), "{name}");
    }
    let is_there = |name: &str| page.iter().any(|(listed, _)| *listed == name);
    let locks = ForrstCode::ALL.into_iter().filter(|code| code.name().starts_with("LOCK_"));
    let stores = [ForrstCode::RateLimited, ForrstCode::Unavailable, ForrstCode::DependencyError];
    for code in locks.chain(stores) {
        assert!(is_there(code.name()), "{code} is not on the page");
    }
}

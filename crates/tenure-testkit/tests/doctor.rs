//! The doctor on stores that fail in part: what still works is tried all the same.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tenure::clock::SystemClock;
use tenure::{Operation, Severity, examine};
use tenure_testkit::faults::{Fault, Faults};

#[tokio::test]
async fn a_store_that_cannot_be_listened_to_is_tried_to_the_end() {
    let store = Faults::new(tenure::stores::open("memory:", Arc::new(SystemClock)).await.unwrap());
    store.always(Operation::Watch, Fault::ErrorBefore);
    let report = examine(Arc::new(store.clone())).await;
    assert!(store.struck(Operation::Watch) > 0);
    let severity = |topic: &str| {
        let found = report.findings.iter().find(|finding| finding.topic == topic);
        found.unwrap_or_else(|| panic!("nothing is said of {topic}: {report:?}")).severity
    };
    assert_eq!(severity("wake-up"), Severity::Warning);
    for topic in ["exclusion", "fence", "round trip"] {
        assert_eq!(severity(topic), Severity::Note, "{topic}");
    }
}

//! The doctor says what a store is worth, and never fails itself.

#![allow(clippy::unwrap_used)]

use tenure::store::Class;
use tenure::{Report, Severity, doctor};

fn topics(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| &*finding.topic).collect()
}

#[tokio::test]
async fn a_store_that_works_is_tried_out() {
    let folder = tempfile::tempdir().unwrap();
    let report = doctor(&format!("file:{}", folder.path().join("locks.db").display())).await;
    let topics = topics(&report);
    for tried in ["exclusion", "fence", "wake-up", "round trip"] {
        assert!(topics.contains(&tried), "{tried} is not among {topics:?}");
    }
    assert_eq!(report.store.unwrap().name, "file");
    assert!(report.findings.iter().all(|found| found.severity < Severity::Refusal));
}

#[tokio::test]
async fn the_gravest_finding_comes_first_and_says_why_the_class_is_low() {
    let report = doctor("memory:").await;
    assert_eq!(report.severity(), Severity::Lowering);
    assert!(report.findings[0].text.contains("end with it"), "{}", report.findings[0]);
    assert_eq!(report.store.unwrap().class, Class::Efficiency);
}

#[tokio::test]
async fn what_cannot_be_opened_is_a_finding_without_the_url() {
    for url in ["file:/proc/no/such/secret.db", "no-such://user:secret@host", "secret"] {
        let report = doctor(url).await;
        assert_eq!(report.severity(), Severity::Refusal);
        assert!(report.store.is_none());
        let shown = format!("{} {:?}", report.findings[0], report.findings);
        assert!(url.starts_with("file:") || !shown.contains("secret"), "{shown}");
    }
}

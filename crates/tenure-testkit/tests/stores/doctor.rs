//! The doctor tries every store out and refuses none that is sound. With a wrong password it says
//! one thing, and not the password.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tenure::clock::SystemClock;
use tenure::{Report, Severity, doctor, examine};
use tenure_testkit::mutants::{Mutant, StoreBug};
use tenure_testkit::servers::{Kind, fresh_room};

use crate::{Idea, Load, Outcome, own, shared};

pub(crate) const IDEA: Idea = Idea {
    name: "doctor",
    load: Load::Waits,
    show: |kind| Box::pin(show(kind)),
    control: (|kind| Box::pin(ill(kind)), "granted to two owners"),
};

/// Where a key is asked for, it has to be base64.
const PASSWORD: &str = "openSesame4711AA";

async fn show(kind: Kind) -> Result<Outcome> {
    let service = shared(kind).await?;
    let report = doctor(&service.url(fresh_room(), None)).await;
    is_sound(&report)?;
    let Some(url) = service.wrong_url(PASSWORD) else {
        return Ok(Outcome::Passed(format!("{}, no password", report.severity())));
    };
    let refused = doctor(&url).await;
    let [finding] = &refused.findings[..] else { anyhow::bail!("{:?}", refused.findings) };
    let text = format!("{finding} {finding:?}");
    ensure!(finding.severity == Severity::Refusal && refused.store.is_none(), "{text}");
    ensure!(!text.contains(PASSWORD), "the password is told");
    Ok(Outcome::Passed(format!("{}, a wrong password: {}", report.severity(), finding.text)))
}

fn is_sound(report: &Report) -> Result<()> {
    let refused = report.findings.iter().find(|found| found.severity == Severity::Refusal);
    ensure!(refused.is_none(), "{refused:?}");
    let wakes = report.store.as_ref().context("not opened")?.capabilities.wakes;
    let tried = ["exclusion", "fence"].into_iter().chain(wakes.then_some("wake-up"));
    for topic in tried {
        let found = report.findings.iter().find(|found| found.topic == topic);
        let found = found.with_context(|| format!("nothing is said of {topic}"))?;
        ensure!(found.severity == Severity::Note, "{found:?}");
    }
    Ok(())
}

/// A store that grants whatever it is asked for.
async fn ill(kind: Kind) -> Result<Outcome> {
    let service = own(kind).await?;
    let url = service.url(fresh_room(), None);
    let store = tenure::stores::open(&url, Arc::new(SystemClock)).await?;
    is_sound(&examine(Arc::new(Mutant::new(store, StoreBug::IgnoresCondition))).await)?;
    Ok(Outcome::Passed("nothing was found".to_owned()))
}

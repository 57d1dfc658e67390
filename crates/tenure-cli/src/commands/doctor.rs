//! `tenure doctor`: what a store is worth, here and now, and how to make it worth more.

use std::io;

use clap::Args;
use serde::Serialize;
use tenure::store::{Class, Timing};
use tenure::{Finding, Report, Severity};

use crate::cli::{OutputArgs, PlaceArgs};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::plain::plain;
use crate::style::{Style, Tone};
use crate::{answer, store_url};

const EXAMPLES: &str = "\
Examples:
  Look at the store that the other commands use.
    tenure doctor

  Refuse to deploy on a store that may lose a lock.
    tenure doctor --store redis://10.0.0.5 --quiet || exit

Classes:
  F  fenced-correct: fences grow and grants hold through every fault that the store survives
  E  efficiency only: a fail-over, a restart or an eviction may lose a grant, and two may hold one
     lock; good to save work, not to protect data

  It opens the store, reads what the store says of its settings, and tries a lock in a namespace of
  its own, 'tenure-doctor'. Your locks are not touched.";

const CODES: [(Exit, &str); 3] = [
    (Exit::SUCCESS, "the store is of class F; notes and warnings may be among the findings"),
    (Exit::No, "the store is of class E"),
    (Exit::Store, "the store cannot be used, or failed its trial"),
];

/// Say what a store can be trusted with, and why
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    store: PlaceArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Serialize)]
struct ReportLine<'a> {
    store: &'a str,
    class: Option<&'static str>,
    timing: Option<&'static str>,
    findings: Vec<FindingLine<'a>>,
    exit: u8,
}

#[derive(Serialize)]
struct FindingLine<'a> {
    severity: &'static str,
    topic: &'a str,
    text: &'a str,
    remedy: Option<&'a str>,
}

/// Looks at the store and says what it found.
pub(crate) async fn doctor(args: &DoctorArgs) -> Result<Exit, Failure> {
    let url = store_url::resolve(args.store.url.as_deref())?;
    let report = tenure::doctor(url.as_str()).await;
    let exit = exit_of(&report);
    let printed = if args.output.json {
        answer::json(&line(url.label(), &report, exit))
    } else {
        let least = if args.output.quiet { Severity::Warning } else { Severity::Note };
        answer::raw(&text(url.label(), &report, least, Style::of(&io::stdout())))
    };
    answer::heard_or_not(printed)?;
    Ok(exit)
}

fn exit_of(report: &Report) -> Exit {
    match &report.store {
        Some(store) if report.severity() < Severity::Refusal => match store.class {
            Class::Fenced => Exit::SUCCESS,
            Class::Efficiency => Exit::No,
        },
        _ => Exit::Store,
    }
}

fn line<'a>(store: &'a str, report: &'a Report, exit: Exit) -> ReportLine<'a> {
    let class = report.store.as_ref().map(|store| store.class.letter());
    let timing = report.store.as_ref().map(|store| match store.timing {
        Timing::Store => "store",
        Timing::Observer => "observer",
    });
    let finding = |finding: &'a Finding| FindingLine {
        severity: name(finding.severity),
        topic: &finding.topic,
        text: &finding.text,
        remedy: finding.remedy.as_deref(),
    };
    let findings = report.findings.iter().map(finding).collect();
    ReportLine { store, class, timing, findings, exit: exit.code() }
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Lowering => "lowering",
        Severity::Refusal => "refusal",
    }
}

/// The report for people, without the findings that matter less than `least`.
fn text(store: &str, report: &Report, least: Severity, style: Style) -> String {
    let mut text = String::new();
    if least == Severity::Note {
        text += &format!("store  {}\nclass  {}\n", plain(store), verdict(report, style));
    }
    for (severity, tone, head) in [
        (Severity::Refusal, Tone::Bad, "It cannot be used like this"),
        (Severity::Lowering, Tone::Bad, "What lowers its class"),
        (Severity::Warning, Tone::Doubtful, "What could be better"),
        (Severity::Note, Tone::Faint, "Good to know"),
    ] {
        let findings: Vec<_> =
            report.findings.iter().filter(|finding| finding.severity == severity).collect();
        if findings.is_empty() || severity < least {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        text += &format!("{gap}{}\n", style.paint(tone, head));
        for Finding { topic, text: what, remedy, .. } in findings {
            let topic = style.paint(Tone::Strong, &plain(topic));
            text += &format!("  {topic}: {}\n", plain(what));
            if let Some(remedy) = remedy {
                text += &format!("    how to mend it: {}\n", plain(remedy));
            }
        }
    }
    text
}

/// The class, and what it means.
fn verdict(report: &Report, style: Style) -> String {
    let (tone, class, why) = match (&report.store, exit_of(report)) {
        (Some(_), Exit::SUCCESS) => {
            (Tone::Good, "F", "fenced-correct: it keeps its grants through what it survives")
        }
        (Some(_), Exit::No) => {
            (Tone::Doubtful, "E", "efficiency only: it may lose a grant, see what lowers it")
        }
        (Some(_), _) => (Tone::Bad, "none", "it opened, and failed the trial of a lock"),
        (None, _) => (Tone::Bad, "none", "it could not be opened"),
    };
    format!("{} ({why})", style.paint(tone, class))
}

#[cfg(test)]
mod tests {
    use tenure::store::{Capabilities, StoreInfo};

    use super::*;

    fn report(findings: Vec<Finding>) -> Report {
        let info =
            StoreInfo::new("redis", Timing::Store, Capabilities::default(), findings.clone());
        Report { store: Some(info), findings }
    }

    #[test]
    fn the_class_decides_and_a_refusal_above_all() {
        let note = Finding::note("a", "b");
        let warning = Finding::warning("a", "b");
        let lowering = Finding::lowering("a", "b");
        let refusal = Finding::refusal("a", "b");
        assert_eq!(exit_of(&report(vec![note.clone()])).code(), 0);
        assert_eq!(exit_of(&report(vec![warning, note])).code(), 0);
        assert_eq!(exit_of(&report(vec![lowering.clone()])).code(), 1);
        assert_eq!(exit_of(&report(vec![refusal.clone(), lowering])).code(), 69);
        assert_eq!(exit_of(&Report { store: None, findings: vec![refusal] }).code(), 69);
    }

    #[test]
    fn the_gravest_stands_first_with_its_remedy() {
        let findings = vec![
            Finding::lowering("maxmemory-policy", "it may\u{1b} evict").remedy("set noeviction"),
            Finding::note("fence", "it grew"),
        ];
        let style = Style::of(&io::stdin());
        let all = text("redis", &report(findings.clone()), Severity::Note, style);
        let order = ["class", "lowers", "maxmemory-policy: it may evict", "mend it: set", "fence"];
        let places: Vec<_> = order.iter().map(|part| all.find(part).expect(part)).collect();
        assert!(places.is_sorted(), "{all}");
        let grave = text("redis", &report(findings), Severity::Warning, style);
        assert!(grave.starts_with("What lowers its class\n") && !grave.contains("fence"));
    }
}

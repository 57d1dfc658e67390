//! Guarantee cards: what was done to a store and what was found, as Markdown.

use std::fmt::Write;

use tenure::store::Class;
use tenure_check::Checker;

use crate::report::{control, failures, faults, letter};
use crate::run::{Order, Outcome};
use crate::setting::Setting;

/// What begins the line of a card that the summary is made of.
pub(crate) const SUMMARY: &str = "<!-- summary ";

/// A row of a table.
fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A table with these heads.
fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = row(heads);
    text += &format!("|{}\n", "---|".repeat(heads.len()));
    for cells in rows {
        text += &row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

/// The command that makes this card.
pub(crate) fn command(outcome: &Outcome) -> String {
    let order = &outcome.order;
    let (seconds, seed) = (order.length.as_secs(), order.seed);
    let length = match seconds % 60 {
        0 => format!("--minutes {}", seconds / 60),
        _ => format!("--seconds {seconds}"),
    };
    let usual = Order::new(order.subject, order.length, seed);
    let mut more = String::new();
    if order.workers != usual.workers {
        more += &format!(" --workers {}", order.workers);
    }
    if order.tasks != usual.tasks {
        more += &format!(" --tasks {}", order.tasks);
    }
    let name = order.subject.name;
    format!("cargo xtask torture --store {name} {length} --seed {seed}{more} --cards")
}

/// The card of a store.
pub(crate) fn render(outcome: &Outcome, setting: &Setting) -> String {
    let (name, judgement) = (outcome.order.subject.name, &outcome.judgement);
    let violations: usize = judgement.broken().iter().map(|(_, count)| count).sum();
    let operations = judgement.tally.operations();
    let verdict = if failures(outcome).is_empty() { "" } else { ": FAILED" };
    let verdict = format!("{violations}{verdict}");
    let mut card = format!("# Guarantee card: {name}\n\n");
    let _ = writeln!(
        card,
        "{SUMMARY}| [{name}]({}.md) | {} | {} | {operations} | {} | {verdict} | {} | -->\n",
        outcome.order.subject.slug(),
        outcome.version,
        letter(outcome.class),
        outcome.struck.len(),
        setting.date,
    );
    card += &facts(outcome, setting);
    card += &format!("\nMade by:\n\n```sh\n{}\n```\n", command(outcome));
    card += &class(outcome);
    let total = outcome.struck.len();
    let _ = write!(card, "\n## Faults: {total}\n\n");
    let rows = faults(outcome).into_iter();
    let rows = rows.map(|(kind, count)| vec![kind.text().to_owned(), count.to_string()]);
    card += &table(&["fault", "times"], rows);
    card += &counted(outcome);
    card += &found(outcome, violations);
    card += &controls(outcome);
    card
}

fn facts(outcome: &Outcome, setting: &Setting) -> String {
    let order = &outcome.order;
    let mut rows = vec![
        ("store", outcome.version.clone()),
        ("set up as", order.subject.configuration.to_owned()),
        ("tenure", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    rows.extend(setting.commit.clone().map(|commit| ("commit", commit)));
    rows.extend([
        (
            "workers",
            format!(
                "{} processes of {} tasks at a time, {} started; {} keys, ttl 2 s and 10 s",
                order.workers, order.tasks, outcome.started, order.keys
            ),
        ),
        ("their boot clocks", rates(order.subject.rates)),
        ("length", format!("{} s", outcome.fought.as_secs())),
        (
            "excused",
            format!(
                "{} % of the time of all workers: something was wrong, or had just been; {} \
                 operations were answered in the rest",
                outcome.judgement.excused.percent(),
                outcome.judgement.reached.quiet.unwrap_or(0)
            ),
        ),
        ("seed", order.seed.to_string()),
        ("date", setting.date.clone()),
        ("machine", setting.machine.clone()),
    ]);
    table(&["", ""], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]))
}

/// The rates of the clocks that leases are measured with.
fn rates(rates: [u64; 3]) -> String {
    let percent = |rate: u64| format!("{}.{} %", rate / 10, rate % 10);
    match rates.map(percent) {
        [one, two, three] if one == two && two == three => "the machine's own".to_owned(),
        [one, two, three] => format!("run at {one}, {two} and {three} of their rate"),
    }
}

fn counted(outcome: &Outcome) -> String {
    let tally = &outcome.judgement.tally;
    let row = |(name, count): (&str, u64)| vec![name.to_owned(), count.to_string()];
    let heads = ["operation", "times"];
    let answered = table(&heads, tally.answered().map(row));
    let others = table(&heads, tally.others().map(row));
    let operations = tally.operations();
    format!(
        "\n## Operations: {operations}\n\nThose that were answered. Where the worker itself holds \
         the key, or others of its tasks stand in line before this one, it knows that without \
         asking the store:\n\n{answered}\nBeside these, without an answer or with an error, and \
         not counted:\n\n{others}"
    )
}

fn class(outcome: &Outcome) -> String {
    let says = match outcome.class {
        Class::Fenced => {
            "fenced-correct: fences grow and grants hold through every fault that the store \
             survives"
        }
        Class::Efficiency => {
            "efficiency only: a fail-over, a restart or an eviction may lose a \
                              grant"
        }
    };
    let mut text = format!("\n## Class {}\n\nThis set-up is {says}.", letter(outcome.class));
    text += " What tenure found out about it, asking the server:\n\n";
    if outcome.findings.is_empty() {
        text += "- nothing that lowers it.\n";
    }
    for finding in &outcome.findings {
        let _ = writeln!(text, "- {} ({}): {}", finding.topic, finding.severity, finding.text);
    }
    text
}

/// Why a checker has nothing to say of a store.
fn not_judged(checker: &str) -> String {
    let why = match checker {
        "undone" => "what nobody gives back stays here until someone has timed it",
        _ => "the store wakes nobody or answers too slowly, or too few waited",
    };
    format!("not judged: {why}")
}

fn found(outcome: &Outcome, violations: usize) -> String {
    let judgement = &outcome.judgement;
    let mut rows: Vec<Vec<String>> = Checker::ALL
        .into_iter()
        .map(|checker| {
            let count = judgement.verdict.of(checker).count().to_string();
            vec![checker.name().to_owned(), checker.promise().to_owned(), count]
        })
        .collect();
    let own = judgement.own().into_iter();
    rows.extend(own.map(|(name, promise, found)| {
        let count = found.map_or_else(|| not_judged(name), |found| found.len().to_string());
        vec![name.to_owned(), promise.to_owned(), count]
    }));
    let heads = ["checker", "what holds where it finds nothing", "violations"];
    let mut text = format!("\n## Violations: {violations}\n\n{}", table(&heads, rows));
    for failure in failures(outcome) {
        let _ = write!(text, "\nThis run FAILED: {failure}.\n");
    }
    text
}

fn controls(outcome: &Outcome) -> String {
    format!(
        "\n## Controls\n\n- Writes by workers that had lost the lock: {} refused by the fenced \
         sink.\n- A counter beside it that does not check the fence {}.\n- Clocks of workers are \
         stepped and run at other rates by libfaketime: it moves what the C library tells, so wall \
         clocks and timers. The boot clock that leases are measured with is read past it: what is \
         told of it above is another matter. Of the servers only the wall clock of `tenure \
         serve` is stepped: some stores measure leases with theirs, and what is promised is \
         promised for clocks that run at about the same rate. One that runs a little fast says so \
         above, and what becomes of one that runs faster than that is shown among the set-ups that \
         must fail.\n- No power is cut: what a \
         process that is killed has written stays with the operating system, so nothing that was \
         not synced is lost here. A machine that comes back without it is simulated \
         (`crates/tenure-testkit/tests/simulation.rs`), and a disk that does not sync is tried out \
         with `file:` (`crates/tenure-testkit/tests/disk.rs`).\n",
        outcome.judgement.verdict.stale_refused,
        control(outcome)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::subject;

    fn outcome() -> Outcome {
        let subject = subject::named("object/seaweedfs").unwrap();
        let mut outcome = Outcome::sample(Order::new(subject, Duration::from_secs(420), 7));
        outcome.judgement.kept = vec!["x".to_owned()];
        outcome
    }

    #[test]
    fn a_card_tells_all() {
        let (date, machine) = ("2026-11-17".to_owned(), "2 cores, Linux 6".to_owned());
        let commit = Some("0123abc and changes".to_owned());
        let setting = Setting { date, machine, commit };
        let card = render(&outcome(), &setting);
        for line in [
            "# Guarantee card: object/seaweedfs",
            "<!-- summary | [object/seaweedfs](object-seaweedfs.md) | Sample 4.47 | F | 0 | 1 \
             | 1: FAILED | 2026-11-17 | -->",
            "cargo xtask torture --store object/seaweedfs --minutes 7 --seed 7 --cards",
            "## Class F",
            "| SIGSTOP of a worker for 0.5, 1.5 or 3 × ttl | 1 |",
            "| fences | fences only grow | 0 |",
            "## Violations: 1",
            "| machine | 2 cores, Linux 6 |",
            "| commit | 0123abc and changes |",
            "| excused | 0 % of the time of all workers: something was wrong, or had just been; 0 \
             operations were answered in the rest |",
        ] {
            assert!(card.lines().any(|found| found == line), "no {line:?} in:\n{card}");
        }
        assert!(card.contains("not exercised"), "{card}");
        assert!(card.contains("No power is cut"), "{card}");
        let card = render(&outcome(), &Setting { commit: None, ..setting });
        assert!(!card.contains("| commit |"), "{card}");
    }

    #[test]
    fn a_length_that_is_no_minute_is_told_in_seconds() {
        let mut outcome = outcome();
        outcome.order.length = Duration::from_secs(90);
        outcome.order.tasks = 3;
        assert!(command(&outcome).ends_with(" --seconds 90 --seed 7 --tasks 3 --cards"));
    }
}

//! What the documents show is what happens: their `sh` blocks are run, and what they print is
//! compared with the block behind.

#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tenure_testkit::servers::free_port;

/// A block that is run, and what it is said to print.
struct Example {
    line: usize,
    script: String,
    prints: Option<String>,
}

/// The `sh` blocks of a document; the block right behind one is what it prints.
fn examples(document: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut lines = document.lines().enumerate().peekable();
    let mut follows = false;
    while let Some((number, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            follows = false;
            continue;
        };
        let body: Vec<_> =
            lines.by_ref().map(|(_, line)| line).take_while(|l| *l != "```").collect();
        let body = body.join("\n");
        if kind == "sh" {
            found.push(Example { line: number + 1, script: body, prints: None });
        } else if follows && let Some(last) = found.last_mut() {
            last.prints = Some(body);
        }
        follows = kind == "sh";
    }
    found
}

/// Whether a text is the pattern, in which `…` stands for anything within a line.
fn is_like(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text.trim_end().lines(), pattern.trim_end().lines());
    loop {
        match (text.next(), pattern.next()) {
            (None, None) => return true,
            (Some(line), Some(like)) if line_is_like(line, like) => {}
            _ => return false,
        }
    }
}

fn line_is_like(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    let mut rest = rest;
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Ports of this run in place of those of the document.
fn with_free_ports(document: &str) -> String {
    let usual = "tenure serve --listen 127.0.0.1:7117 &";
    let document = document.replace("tenure serve &", usual);
    // In two passes: a new port may have an old one in it.
    let ports = ["7117", "7118", "3500", "50001"].map(|port| (port, format!("<port {port}>")));
    let named = ports.iter().fold(document, |text, (port, name)| text.replace(port, name));
    ports
        .iter()
        .fold(named, |text, (_, name)| text.replace(name, &free_port().unwrap().to_string()))
}

/// Runs all examples of a document, and fails unless each prints what it is said to.
fn check(document: &str) {
    let examples = examples(&with_free_ports(document));
    for (example, printed) in examples.iter().zip(run(&examples)) {
        if let Some(expected) = &example.prints {
            let line = example.line;
            assert!(is_like(&printed, expected), "line {line}: {printed}\nis not\n{expected}");
        }
    }
}

/// Runs examples in one shell, so that each sees what those before it did. Returns what each has
/// printed.
fn run(examples: &[Example]) -> Vec<String> {
    assert!(!examples.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let mut script =
        "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    for (at, example) in examples.iter().enumerate() {
        // In braces and not in a subshell: variables and jobs are for those behind.
        script += &format!("{{\n{}\n}} > out{at}\n", example.script);
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("XDG_DATA_HOME", folder.path())
        .env_remove("TENURE_STORE")
        .stdin(Stdio::null())
        .process_group(0);
    // What the page on the server needs for gRPC.
    #[cfg(feature = "servers")]
    bash.env("PYTHONPATH", tenure_testkit::servers::place::python().unwrap());
    let output = bash.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = |(at, example): (usize, &Example)| {
        let printed = std::fs::read_to_string(folder.path().join(format!("out{at}")));
        printed.unwrap_or_else(|_| panic!("line {} was not run: {said}", example.line))
    };
    let printed = examples.iter().enumerate().map(printed).collect();
    assert!(output.status.success(), "{said}\n{printed:?}");
    printed
}

const README: &str = include_str!("../../../README.md");
const SERVER: &str = include_str!("../../../docs/server.md");

/// It needs a client of gRPC, which `cargo xtask install` installs.
#[cfg(feature = "servers")]
#[test]
fn the_examples_of_the_server_s_page_do_what_they_show() {
    check(SERVER);
}

#[test]
fn the_examples_of_the_command_s_page_do_what_they_show() {
    check(include_str!("../../../docs/command.md"));
}

#[test]
fn the_examples_of_dapr_s_page_do_what_they_show() {
    check(include_str!("../../../docs/dapr.md"));
}

/// With the program that is already built, in place of building it.
#[test]
fn the_first_lines_of_the_readme_run_a_command_and_lock_something_with_curl() {
    let readme = README.replace("cargo run -q -- ", "tenure ");
    let readme = readme.replace("cargo run --release -- ", "tenure ");
    let examples: Vec<_> = examples(&with_free_ports(&readme))
        .into_iter()
        .zip(examples(README))
        .filter(|(_, written)| written.script.contains("cargo run"))
        .map(|(example, _)| example)
        .collect();
    let [command, serve] = &run(&examples)[..] else { panic!("there are two such blocks") };
    assert!(is_like(command, "only me, with fence …"), "{command}");
    let granted = r#"{"key":"order:42","lock_id":"…","fence":…,"ttl_ms":30000}"#;
    assert!(is_like(serve, granted), "{serve}");
}

/// What a person types there, and what is printed: of the same form, with other names and times.
#[test]
fn the_console_of_the_readme_shows_what_is_printed() {
    let (_, rest) = README.split_once("```console\n$ tenure list\n").unwrap();
    let (list, rest) = rest.split_once("$ tenure doctor\n").unwrap();
    let (doctor, _) = rest.split_once("\n…\n```").unwrap();
    let example = |script: &str| Example { line: 0, script: script.to_owned(), prints: None };
    let printed = run(&[example("tenure run import -- tenure list"), example("tenure doctor")]);
    let cells = |line: &str| line.split("  ").filter(|cell| !cell.trim().is_empty()).count();
    let (shown, found): (Vec<_>, Vec<_>) = (list.lines().collect(), printed[0].lines().collect());
    let head = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(head(shown[0]), head(found[0]));
    assert_eq!(shown.iter().map(|line| cells(line)).collect::<Vec<_>>(), [5, 5]);
    assert_eq!(found.iter().map(|line| cells(line)).collect::<Vec<_>>(), [5, 5], "{printed:?}");
    assert!(found[1].starts_with("import  "), "{printed:?}");
    let (store, class) = doctor.split_once('\n').unwrap();
    let (file, _) = store.split_once("/home/ann/.local/share").unwrap();
    let expected: Vec<_> = printed[1].lines().take(2).collect();
    assert!(expected[0].starts_with(file) && expected[0].ends_with("/tenure/locks.db"));
    assert_eq!(expected[1], class);
}

#[test]
fn every_variable_of_the_command_line_is_on_the_server_s_page() {
    let help = Command::new(env!("CARGO_BIN_EXE_tenure")).args(["serve", "--help"]).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    let variables: Vec<_> =
        help.split("[env: ").skip(1).map(|rest| rest.split(['=', ']']).next().unwrap()).collect();
    assert!(variables.len() > 5, "{help}");
    let (_, page) = SERVER.split_once("## Environment").unwrap();
    for variable in variables {
        assert!(page.contains(&format!("`{variable}`")), "{variable} is not on the page");
    }
}

#[test]
fn the_examples_of_forrst_s_page_do_what_they_show() {
    let page = include_str!("../../../docs/forrst.md");
    check(page);
    let service = include_str!("../../tenure-forrst/examples/payments.rs");
    assert!(page.contains(service), "the service on the page is not the example that is built");
}

#[test]
fn dots_stand_for_anything_in_a_line() {
    assert!(is_like("a1b\nc\n", "a…b\nc"));
    assert!(!is_like("a1b\nc\nd\n", "a…b\nc"));
    assert!(!is_like("a1c", "a…b"));
    assert!(is_like("{\"a\":12,\"b\":3}", "{\"a\":…,\"b\":…}"));
}

//! The help, word for word. `UPDATE=1` writes the files anew.

use crate::sandbox::{Ran, Sandbox};
use crate::snapshot::assert_kept;

/// Those whose help is kept. That of `serve` stands beside its configuration.
const COMMANDS: [&str; 15] = [
    "run",
    "elect",
    "acquire",
    "renew",
    "release",
    "status",
    "list",
    "watch",
    "force-release",
    "doctor",
    "verify",
    "bench",
    "config",
    "completions",
    "man",
];

async fn assert_snapshot(name: &str, words: &[&str], code: i32) {
    let Ran { code: ended, stdout, stderr } = Sandbox::new().run(words).await;
    let (text, other) = if code == 0 { (stdout, stderr) } else { (stderr, stdout) };
    assert_eq!(ended, Some(code), "{text}{other}");
    assert_eq!(other, "");
    assert_kept(name, &text);
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "a line of {name} has {longest:?} characters");
}

#[tokio::test]
async fn help_is_as_it_was() {
    assert_snapshot("help.txt", &["--help"], 0).await;
    assert_snapshot("help-short.txt", &["-h"], 0).await;
    for command in COMMANDS {
        assert_snapshot(&format!("{command}-help.txt"), &[command, "--help"], 0).await;
        assert_snapshot(&format!("{command}-help-short.txt"), &[command, "-h"], 0).await;
    }
}

#[tokio::test]
async fn every_command_is_kept() {
    let help = Sandbox::new().run(&["-h"]).await.stdout;
    let (_, rest) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = rest.split_once("\n\n").unwrap();
    let listed = commands.lines().filter_map(|line| line.split_whitespace().next());
    for command in listed {
        assert!(command == "serve" || COMMANDS.contains(&command), "{command}");
    }
}

#[tokio::test]
async fn what_locks_or_looks_says_its_exit_codes_and_shows_an_example() {
    for command in COMMANDS {
        let help = Sandbox::new().run(&[command, "--help"]).await.stdout;
        assert!(help.contains("\nExamples:\n"), "{command}");
        let prints_text = ["completions", "man"].contains(&command);
        assert!(prints_text || help.contains("\nExit codes:\n"), "{command}");
    }
}

#[tokio::test]
async fn the_short_help_has_a_line_for_each_option() {
    for command in COMMANDS.iter().filter(|command| **command != "run") {
        let help = Sandbox::new().run(&[command, "-h"]).await.stdout;
        let (_, options) = help.split_once("Options:\n").unwrap();
        for line in options.lines() {
            assert!(line.trim_start().starts_with('-'), "{command}: {line:?}");
        }
    }
}

#[tokio::test]
async fn nothing_at_all_is_answered_with_the_short_help() {
    assert_snapshot("help-short-on-stderr.txt", &[], 64).await;
}

#[tokio::test]
async fn the_version_is_told() {
    let ran = Sandbox::new().run(&["--version"]).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stdout, format!("tenure {}\n", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn help_shows_no_password_and_no_owner() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let mut command = sandbox.tenure(&[command, "--help"]);
        command.env("TENURE_STORE", "redis://hunter2@h").env("TENURE_OWNER", "hunter2");
        let ran = Ran::of(command.spawn().unwrap()).await;
        ran.expect(0, &[]);
        assert!(!ran.stdout.contains("hunter2"));
    }
}

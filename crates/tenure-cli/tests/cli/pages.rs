//! What is printed for shells and for `man`.

use std::process::Command;

use crate::sandbox::Sandbox;

#[tokio::test]
async fn shells_get_their_completions() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = sandbox.run(&["completions", shell]).await;
        ran.expect(0, &[]);
        for part in ["force-release", "owner-file", "namespace"] {
            assert!(ran.stdout.contains(part), "{shell} has no {part}");
        }
        std::fs::write(sandbox.path(shell), ran.stdout).unwrap();
    }
    let parsed = Command::new("bash").arg("-n").arg(sandbox.path("bash")).output().unwrap();
    assert!(parsed.status.success() && parsed.stderr.is_empty(), "{parsed:?}");
    sandbox.run(&["completions", "cmd"]).await.expect(64, &["bash", "zsh", "fish"]);
}

#[tokio::test]
async fn the_manual_has_every_command() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["-h"]).await.stdout;
    let (_, rest) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = rest.split_once("\n\n").unwrap();
    let page = sandbox.run(&["man"]).await;
    page.expect(0, &[]);
    assert!(page.stdout.contains(".TH tenure 1"), "{page:?}");
    let commands: Vec<_> =
        commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"force-release"), "{commands:?}");
    for command in commands {
        let name = format!("tenure\\-{}", command.replace('-', "\\-"));
        assert!(page.stdout.contains(&name), "{command}");
        let ran = sandbox.run(&["man", command]).await;
        ran.expect(0, &[]);
        assert!(ran.stdout.contains(&format!(".SH NAME\n{name} \\- ")), "{command}");
        assert!(ran.stdout.contains(".SH EXAMPLES\n"), "{command}");
    }
    sandbox.run(&["man", "walk"]).await.expect(64, &["no command \"walk\"", "tenure --help"]);
}

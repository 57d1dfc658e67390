//! Starting other programs, and saying which one failed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// What cargo tells a program that it runs about that program. Build scripts look at it, so that
/// whatever cargo builds from here would be built anew, and once more without us.
const OF_OURSELVES: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// A command made of words that hold no spaces, to be run in `folder`.
pub(crate) fn command(folder: &Path, words: &str) -> Command {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let is_ours = |name: &str| OF_OURSELVES.iter().any(|start| name.starts_with(start));
        if name.to_str().is_some_and(is_ours) {
            command.env_remove(name);
        }
    }
    command
}

/// Shows the command, runs it, and fails when it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// What the command printed; it fails when the command does.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let shown = shown(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    Ok(output.stdout)
}

/// Whether the command starts and succeeds, without showing anything.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let mut shown = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let value = value.to_string_lossy();
            let quote = if value.contains(' ') { "'" } else { "" };
            shown += &format!("{}={quote}{value}{quote} ", name.to_string_lossy());
        }
    }
    shown += &command.get_program().to_string_lossy();
    for argument in command.get_args() {
        shown += " ";
        shown += &argument.to_string_lossy();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_with_its_environment() {
        let mut failing = command(Path::new("/"), "false --now");
        let error = run(failing.env("A", "b")).unwrap_err().to_string();
        assert_eq!(error, "`A=b false --now` failed (exit status: 1)");
        let error = run(failing.env("A", "b c")).unwrap_err().to_string();
        assert_eq!(error, "`A='b c' false --now` failed (exit status: 1)");
    }

    #[test]
    fn a_program_that_is_not_there_does_not_succeed() {
        assert!(!succeeds(&mut command(Path::new("/"), "tenure-no-such-program")));
        assert!(output(&mut command(Path::new("/"), "tenure-no-such-program")).is_err());
    }
}

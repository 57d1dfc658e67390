//! Helper processes: this program started again, with its part named in the environment.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::{batching, contest, file_load, footprint, growth, kept, server};

const VARIABLE: &str = "TENURE_BENCH_ROLE";

type Part = fn(&[String]) -> Result<()>;

const PARTS: &[(&str, Part)] = &[
    ("count commits", batching::play),
    ("load", file_load::play),
    ("contend", contest::play),
    ("hold leases", footprint::play),
    ("grow", growth::play),
    ("keep alive", kept::play),
    ("forrst", server::play_forrst),
];

/// Plays the part that the environment names, and then ends the process; otherwise returns.
pub(crate) fn play_if_asked() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let words: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let code = match play(&words) {
        Ok(()) => 0,
        Err(error) => {
            println!("failed: {error:#}");
            1
        }
    };
    std::process::exit(code);
}

fn play(words: &[String]) -> Result<()> {
    let (name, arguments) = words.split_first().context("no part")?;
    let part = PARTS.iter().find(|(known, _)| known == name).context("no such part")?;
    (part.1)(arguments)
}

/// The argument at this place.
pub(crate) fn argument<T: FromStr>(arguments: &[String], at: usize) -> Result<T> {
    let text = arguments.get(at).context("an argument is missing")?;
    text.parse().ok().with_context(|| format!("no such argument: {text:?}"))
}

/// Tells whoever started this process that it is ready, and waits to be told to go on.
pub(crate) fn await_start() -> Result<()> {
    say("ready")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    if line.is_empty() { bail!("nobody said go") } else { Ok(()) }
}

pub(crate) fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// A running helper. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Helper {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    pub(crate) fn start(part: &str, arguments: &[&str]) -> Result<Self> {
        let words = [&[part], arguments].concat();
        let mut child = Command::new(std::env::current_exe()?)
            .env(VARIABLE, words.join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the helper did not start")?;
        let out = child.stdout.take().context("the helper has no output")?;
        Ok(Self { child, lines: BufReader::new(out).lines() })
    }

    pub(crate) fn await_ready(&mut self) -> Result<()> {
        match self.line()?.as_deref() {
            Some("ready") => Ok(()),
            other => bail!("the helper is not ready: {other:?}"),
        }
    }

    pub(crate) fn go(&mut self) -> Result<()> {
        Ok(self.child.stdin.as_mut().context("the helper has no input")?.write_all(b"go\n")?)
    }

    /// Its next line; `None` when it has ended.
    pub(crate) fn line(&mut self) -> Result<Option<String>> {
        let line = self.lines.next().transpose()?;
        if let Some(line) = &line
            && line.starts_with("failed")
        {
            bail!("a helper {line}");
        }
        Ok(line)
    }

    /// The numbers of its next line.
    pub(crate) fn numbers<const N: usize>(&mut self) -> Result<[u64; N]> {
        let line = self.line()?.context("the helper ended without an answer")?;
        parse(&line)
    }
}

pub(crate) fn parse<const N: usize>(line: &str) -> Result<[u64; N]> {
    let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
    let numbers = numbers.with_context(|| format!("no numbers: {line:?}"))?;
    numbers.try_into().ok().with_context(|| format!("not {N} numbers: {line:?}"))
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It has usually ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! `cargo xtask torture`: installs what the named stores need, builds the server that is one of
//! them, and hands on the command line.

use std::path::Path;

use anyhow::Result;

use crate::{command, commit, needs};

/// What a run has to find on this machine.
#[derive(Debug, PartialEq, Eq)]
enum Wanted<'a> {
    /// It starts nothing.
    Nothing,
    /// What these stores need.
    Stores(Vec<&'a str>),
    /// What any store needs.
    Everything,
}

/// Optimised, because what is slow is not what breaks.
pub(crate) fn run(root: &Path, options: &[String]) -> Result<()> {
    let wanted = wanted(options);
    match &wanted {
        Wanted::Nothing => {}
        Wanted::Stores(stores) => needs::install_for(root, stores)?,
        Wanted::Everything => needs::install_for_all(root)?,
    }
    if wanted != Wanted::Nothing {
        command::run(&mut command::command(root, "cargo build --release -p tenure-cli"))?;
    }
    let words = "cargo run --release -p tenure-torture --";
    let mut torture = command::command(root, words);
    torture.args(options).envs(commit::told(root));
    command::run(&mut torture)
}

/// Judged by no more of the command line than decides it: the rest is for the program.
fn wanted(options: &[String]) -> Wanted<'_> {
    let mut stores = Vec::new();
    let mut has_stores_of_its_own = false;
    let mut words = options.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let (option, value) = word.split_once('=').map_or((word, None), |(o, v)| (o, Some(v)));
        match option {
            "--help" | "-h" | "--judge" => return Wanted::Nothing,
            "--control" | "--planted" => has_stores_of_its_own = true,
            "--store" => {
                stores.extend(value.or_else(|| words.next()).unwrap_or_default().split(','));
            }
            _ => {}
        }
    }
    if stores.is_empty() || has_stores_of_its_own {
        Wanted::Everything
    } else {
        Wanted::Stores(stores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn wants(line: &str, expected: &Wanted<'_>) {
        let options: Vec<String> = line.split_whitespace().map(String::from).collect();
        assert_eq!(&wanted(&options), expected, "{line}");
    }

    #[test]
    fn whoever_starts_no_store_gets_nothing_installed() {
        for line in ["--help", "-h", "--store redis --help", "--cards -h", "--judge folder"] {
            wants(line, &Wanted::Nothing);
        }
    }

    #[test]
    fn only_what_the_named_stores_need_is_wanted() {
        wants("--store file --seconds 5", &Wanted::Stores(vec!["file"]));
        wants("--seed 1 --store=file,redis", &Wanted::Stores(vec!["file", "redis"]));
        wants("--store nats --store etcd", &Wanted::Stores(vec!["nats", "etcd"]));
    }

    #[test]
    fn a_run_that_chooses_stores_itself_may_choose_any() {
        for line in ["", "--stores 2", "--cards", "--control --store file", "--planted x"] {
            wants(line, &Wanted::Everything);
        }
    }
}

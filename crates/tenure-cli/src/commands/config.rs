//! `tenure config`: which settings are in force, and where each comes from.

use std::ffi::OsStr;

use clap::Args;
use serde_json::json;

use crate::cli::{OutputArgs, StoreArgs};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::sheet::sheet;
use crate::{answer, owner_args, owner_file, say, store_url};

const EXAMPLES: &str = "\
Examples:
  Which store would be used here, and why?
    tenure config

  The same of a service, with its environment.
    systemd-run --property=EnvironmentFile=/etc/app.env --pipe tenure config

  Nothing is opened or made. Of a store only its scheme is shown, or its path: never a password, and
  of secrets only that they are set. To see whether the store works, use 'tenure doctor'.";

const CODES: [(Exit, &str); 1] = [(Exit::SUCCESS, "the settings were printed")];

/// The variables that are read, and whether their values may be shown.
const VARIABLES: [(&str, bool); 9] = [
    ("TENURE_STORE", false),
    ("TENURE_NAMESPACE", true),
    ("TENURE_LOG", true),
    (owner_file::VARIABLE, true),
    (owner_args::OWNER, false),
    ("TENURE_TOKEN", false),
    ("TENURE_CONFIG", true),
    ("TENURE_LISTEN", true),
    ("TENURE_INSECURE", true),
];

/// Print the settings in force, and where each comes from
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// One setting.
struct Setting {
    name: &'static str,
    /// `None` when it is not set.
    value: Option<String>,
    from: &'static str,
}

/// Prints the settings.
pub(crate) fn config(args: &ConfigArgs) -> Result<Exit, Failure> {
    if args.output.json {
        say::in_json();
    }
    let mut settings = vec![store(args)?, namespace(args), folder(), default_store()];
    settings.extend(VARIABLES.iter().map(|(name, is_open)| variable(name, *is_open)));
    if args.output.json {
        let members = settings.iter().map(|setting| {
            let Setting { name, value, from } = setting;
            let from = value.as_ref().map(|_| from);
            ((*name).to_owned(), json!({ "value": value, "from": from }))
        });
        answer::json(&serde_json::Map::from_iter(members))?;
    } else {
        let rows = settings.into_iter().filter_map(|setting| {
            let Setting { name, value, from } = setting;
            value.map(|value| (name, format!("{value} ({from})")))
        });
        sheet(&rows.collect::<Vec<_>>())?;
    }
    Ok(Exit::SUCCESS)
}

fn store(args: &ConfigArgs) -> Result<Setting, Failure> {
    let asked = args.store.place.url.as_deref();
    let value = store_url::locate(asked)?.label().to_owned();
    let from = match asked {
        None => "the default store",
        Some(url) => source(url, "TENURE_STORE", "--store"),
    };
    Ok(Setting { name: "store", value: Some(value), from })
}

fn namespace(args: &ConfigArgs) -> Setting {
    let name = "namespace";
    match args.store.namespace.as_ref().map(ToString::to_string) {
        None => Setting { name, value: Some("default".into()), from: "the default" },
        Some(value) => {
            let from = source(&value, "TENURE_NAMESPACE", "--namespace");
            Setting { name, value: Some(value), from }
        }
    }
}

fn folder() -> Setting {
    let is_named = std::env::var_os("XDG_DATA_HOME").is_some_and(|text| !text.is_empty());
    let value = store_url::usual_folder().map(|path| path.display().to_string());
    Setting { name: "data_folder", value, from: if is_named { "XDG_DATA_HOME" } else { "HOME" } }
}

fn default_store() -> Setting {
    let value = store_url::locate(None).ok().map(|url| url.label().to_owned());
    Setting { name: "default_store", value, from: "the data folder" }
}

/// What is not set has no value, and what is secret does not show it.
fn variable(name: &'static str, is_open: bool) -> Setting {
    let value = std::env::var_os(name).map(|text| {
        if is_open { text.to_string_lossy().into_owned() } else { "set, and not shown".to_owned() }
    });
    Setting { name, value, from: "the environment" }
}

fn source(value: &str, variable: &'static str, option: &'static str) -> &'static str {
    let is_from_variable = std::env::var_os(variable).as_deref() == Some(OsStr::new(value));
    if is_from_variable { variable } else { option }
}

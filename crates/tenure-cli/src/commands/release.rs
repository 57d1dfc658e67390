//! `tenure release`: gives back a lease by key and owner, whichever process took it.

use clap::Args;
use serde_json::json;
use tenure::Key;

use crate::cli::{OutputArgs, StoreArgs, key};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::owner_args::OwnerArgs;
use crate::{answer, open};

const EXAMPLES: &str = "\
Examples:
  Give back what 'tenure acquire' took.
    tenure acquire deploy --owner-file deploy.owner
    tenure release deploy --owner-file deploy.owner

  With the owner from elsewhere, and not on the command line.
    vault read -field=owner secret/deploy | tenure release deploy --owner-file -";

const CODES: [(Exit, &str); 2] = [
    (Exit::SUCCESS, "the lock was given back"),
    (Exit::No, "there was nothing to give back: no lease stands on the key, or another owner's"),
];

/// Give a lock back
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = exit::help(EXAMPLES, &CODES))]
pub(crate) struct ReleaseArgs {
    /// The name of the lock
    #[arg(value_parser = key)]
    key: Key,

    #[command(flatten)]
    owner: OwnerArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Gives the lease back.
pub(crate) async fn release(args: &ReleaseArgs) -> Result<Exit, Failure> {
    let owner = args.owner.resolve()?;
    let locks = open::locks(&args.store, args.output.verbose, open::USUAL_TTL).await?;
    let key = args.key.as_str();
    locks.release(key, &owner).await.map_err(|error| Failure::advised(&error))?;
    if args.output.json {
        answer::json(&json!({ "key": key, "released": true }))?;
    } else if !args.output.quiet {
        answer::line(&format!("released {key:?}"))?;
    }
    Ok(Exit::SUCCESS)
}

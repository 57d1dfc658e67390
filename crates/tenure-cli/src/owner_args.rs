//! The owner as the command line names it: the secret that proves a lease.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use tenure::Owner;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::owner_file;

/// The variable that stands in for `--owner`, as [`owner_file::VARIABLE`] does for the file.
pub(crate) const OWNER: &str = "TENURE_OWNER";

const NAME_ONE: &str = "give --owner-file, with a file that 'tenure acquire --owner-file' has \
                        written, or --owner";

/// Who asks.
// No variables here: an option must come before each of them, and clap would repeat a bad owner.
#[derive(Args, Debug)]
pub(crate) struct OwnerArgs {
    /// The file with the lease's owner; - is stdin [default: $TENURE_OWNER_FILE]
    ///
    /// As 'tenure acquire --owner-file' writes it. Under 'tenure run' nothing has to be said: the
    /// command finds its file in TENURE_OWNER_FILE.
    #[arg(long, value_name = "FILE")]
    owner_file: Option<PathBuf>,

    /// The lease's owner itself [default: $TENURE_OWNER]
    ///
    /// It is a secret, and a command line can be seen by others: prefer --owner-file.
    #[arg(long, value_name = "OWNER", conflicts_with = "owner_file")]
    owner: Option<String>,
}

impl OwnerArgs {
    /// The owner that was named, or that the environment names. No error repeats it.
    pub(crate) fn resolve(&self) -> Result<Owner, Failure> {
        let variable = |name| std::env::var_os(name).filter(|text: &OsString| !text.is_empty());
        if let Some(path) = &self.owner_file {
            return from_file(path);
        }
        if let Some(text) = &self.owner {
            return parse(text);
        }
        if let Some(path) = variable(owner_file::VARIABLE) {
            return from_file(Path::new(&path));
        }
        match variable(OWNER).map(OsString::into_string) {
            Some(Ok(text)) => parse(&text),
            Some(Err(_)) => Err(refused(format!("the owner in {OWNER} is not UTF-8"))),
            None => Err(refused("there is no owner to prove the lease with".into())),
        }
    }
}

fn from_file(path: &Path) -> Result<Owner, Failure> {
    let text = owner_file::read(path).map_err(|error| {
        let text = format!("the owner's file {} cannot be read", path.display());
        Failure::caused(Exit::Usage, &text, &error).advise(NAME_ONE)
    })?;
    parse(&text)
}

fn parse(text: &str) -> Result<Owner, Failure> {
    Owner::parse(text).map_err(|error| refused(error.to_string()))
}

fn refused(text: String) -> Failure {
    Failure::new(Exit::Usage, text).advise(NAME_ONE)
}

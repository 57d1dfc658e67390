//! Which store to use: the one that was named, or the embedded one of this user.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tenure::stores::{kind_of, schemes};

use crate::exit::Exit;
use crate::failure::Failure;

const NAME_ONE: &str = "name a store with --store or TENURE_STORE";

/// A store's URL. It may carry a password, so it is shown by its label only.
pub(crate) struct StoreUrl(String);

impl StoreUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// What may be shown of it: all of a path, and of anything else no more than the scheme.
    pub(crate) fn label(&self) -> &str {
        match self.0.split_once(':') {
            Some(("file", _)) => &self.0,
            Some((scheme, _)) => scheme,
            None => "",
        }
    }
}

/// The store at `asked`, or the default one, whose folder is made if it is not there.
pub(crate) fn resolve(asked: Option<&str>) -> Result<StoreUrl, Failure> {
    if asked.is_none()
        && let Some(folder) = usual_folder()
    {
        create(&folder)?;
    }
    locate(asked)
}

/// The store at `asked`, or the default one. Nothing is made or opened.
pub(crate) fn locate(asked: Option<&str>) -> Result<StoreUrl, Failure> {
    match asked {
        Some(url) => named(url),
        None => usual(usual_folder()),
    }
}

/// Where the default store is, if this user has such a place.
pub(crate) fn usual_folder() -> Option<PathBuf> {
    data_folder(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
}

/// No text repeats the URL. An empty one is refused: to take the default for a variable that was
/// forgotten would be to lock on another store than the others do.
fn named(url: &str) -> Result<StoreUrl, Failure> {
    let refused = |text: String| Err(Failure::new(Exit::Usage, text).advise(NAME_ONE));
    if url.is_empty() {
        return refused("the store is empty".into());
    }
    match url.split_once(':') {
        Some((scheme, _)) if kind_of(scheme).is_some() => Ok(StoreUrl(url.to_owned())),
        Some(_) => refused(format!("the store's scheme is none of {}", schemes().join(", "))),
        None => refused("the store must be a URL such as file:/var/lib/app/locks.db".into()),
    }
}

fn usual(folder: Option<PathBuf>) -> Result<StoreUrl, Failure> {
    let Some(folder) = folder else {
        let text = "there is no folder for the embedded store, because HOME is not set";
        return Err(Failure::new(Exit::Usage, text).advise(NAME_ONE));
    };
    let Some(file) = folder.join("locks.db").to_str().map(str::to_owned) else {
        let text = format!("the path of the embedded store, in {}, is not UTF-8", folder.display());
        return Err(Failure::new(Exit::Usage, text).advise(NAME_ONE));
    };
    Ok(StoreUrl(format!("file:{file}")))
}

/// As the XDG base directory specification has it: a path that is not absolute does not count.
fn data_folder(data: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let data = data.and_then(absolute);
    let data = data.or_else(|| home.and_then(absolute).map(|home| home.join(".local/share")));
    data.map(|data| data.join("tenure"))
}

/// For this user alone: what is in there proves who holds a lock.
fn create(folder: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        let text = format!("the folder {} cannot be made", folder.display());
        Failure::caused(Exit::Store, &text, &error).advise(NAME_ONE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Option<OsString> {
        Some(text.into())
    }

    #[test]
    fn the_data_folder_comes_before_the_home_folder() {
        let folder = |data, home| data_folder(data, home).map(|path| path.display().to_string());
        assert_eq!(folder(path("/data"), path("/home/a")), Some("/data/tenure".into()));
        let at_home = Some("/home/a/.local/share/tenure".to_owned());
        assert_eq!(folder(None, path("/home/a")), at_home);
        assert_eq!(folder(path(""), path("/home/a")), at_home);
        assert_eq!(folder(path("data"), path("/home/a")), at_home);
        assert_eq!(folder(None, None), None);
        assert_eq!(folder(None, path("")), None);
    }

    #[test]
    fn a_refusal_does_not_repeat_the_url() {
        for url in ["postgresque://me:hunter2@host", "hunter2", ""] {
            let text = named(url).err().unwrap().to_string();
            assert!(!text.contains("hunter2") && text.contains("--store"), "{text}");
        }
    }

    #[test]
    fn only_a_path_is_shown() {
        assert_eq!(StoreUrl("file:/a/b.db".into()).label(), "file:/a/b.db");
        assert_eq!(StoreUrl("redis://me:hunter2@host".into()).label(), "redis");
    }
}

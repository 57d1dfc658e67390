//! The rule of a lock, said in Lua: one script per operation.

use std::sync::LazyLock;

use ::redis::Cmd;

use super::slot::Names;

macro_rules! scripts {
    ($($name:ident($keys:ident) = $($part:literal)+;)+) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            let source = concat!($(include_str!(concat!("scripts/", $part, ".lua"))),+);
            Script::new(Keys::$keys, source)
        });)+
    };
}

scripts! {
    ACQUIRE(LockAndCounter) = "grant" "standing" "holding" "acquire";
    RENEW(Lock) = "standing" "holding" "renew";
    RELEASE(Lock) = "standing" "holding" "release";
    FORCE(Lock) = "standing" "force";
    INSPECT(Lock) = "standing" "inspect";
}

/// What a script touches. No more than it needs: while a slot moves to another node, it runs only
/// where all of it is in one place.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// The lock and the record beside it.
    Lock,
    /// These and the fence counter.
    LockAndCounter,
}

/// One script.
#[derive(Debug)]
pub(super) struct Script {
    keys: Keys,
    source: &'static str,
    hash: String,
}

impl Script {
    fn new(keys: Keys, source: &'static str) -> Self {
        Self { keys, source, hash: ::redis::Script::new(source).get_hash().to_owned() }
    }

    /// Runs it by its hash: the server knows it already, or says that it does not.
    pub(super) fn by_hash(&self, key: &str, names: &Names, arguments: &[&str]) -> Cmd {
        self.command("EVALSHA", &self.hash, key, names, arguments)
    }

    /// Runs it by its text, from which the server also learns it.
    pub(super) fn by_source(&self, key: &str, names: &Names, arguments: &[&str]) -> Cmd {
        self.command("EVAL", self.source, key, names, arguments)
    }

    fn command(
        &self,
        verb: &str,
        script: &str,
        key: &str,
        names: &Names,
        arguments: &[&str],
    ) -> Cmd {
        let mut command = ::redis::cmd(verb);
        command.arg(script);
        match self.keys {
            Keys::Lock => command.arg(2).arg(key).arg(&names.record),
            Keys::LockAndCounter => command.arg(3).arg(key).arg(&names.record).arg(&names.counter),
        };
        command.arg(arguments);
        command
    }
}

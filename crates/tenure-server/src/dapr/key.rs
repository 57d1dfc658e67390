//! The key of a resource, as Dapr makes it.

use crate::failure::Failure;

const SEPARATOR: &str = "||";

/// What stands before every key that comes by Dapr's API: Dapr's `keyPrefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyPrefix {
    /// The application: `lock||app||key`, or `lock||key` where it has no name.
    #[default]
    AppId,
    /// The store: `lock||store||key`.
    Name,
    /// Nothing but what marks a lock: `lock||key`. Applications share their locks.
    None,
    /// A word: `lock||word||key`.
    Word(String),
}

impl KeyPrefix {
    /// The prefix that a configuration names, in any case; nothing is `appid`.
    ///
    /// # Errors
    /// `Invalid` when it has the separator in it.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let text = text.to_lowercase();
        check(&text).map_err(Failure::invalid)?;
        Ok(match &*text {
            "" | "appid" => Self::AppId,
            "name" => Self::Name,
            "none" => Self::None,
            _ => Self::Word(text),
        })
    }

    /// The key of a resource.
    ///
    /// # Errors
    /// Dapr's own text, when the resource has the separator in it.
    pub(super) fn key(&self, store: &str, app_id: &str, resource: &str) -> Result<String, String> {
        check(resource)?;
        let prefix = match self {
            Self::AppId => app_id,
            Self::Name => store,
            Self::None => "",
            Self::Word(word) => word,
        };
        Ok(match prefix {
            "" => ["lock", resource].join(SEPARATOR),
            prefix => ["lock", prefix, resource].join(SEPARATOR),
        })
    }
}

fn check(part: &str) -> Result<(), String> {
    if part.contains(SEPARATOR) {
        return Err(format!("input key/keyPrefix '{part}' can't contain '{SEPARATOR}'"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(prefix: &str, app_id: &str) -> String {
        KeyPrefix::parse(prefix).unwrap().key("store", app_id, "k").unwrap()
    }

    #[test]
    fn every_strategy_makes_the_key_that_dapr_makes() {
        for (prefix, app_id, expected) in [
            ("", "app", "lock||app||k"),
            ("appid", "app", "lock||app||k"),
            ("AppID", "app", "lock||app||k"),
            ("appid", "", "lock||k"),
            ("name", "app", "lock||store||k"),
            ("none", "app", "lock||k"),
            ("Team-A", "app", "lock||team-a||k"),
        ] {
            assert_eq!(key(prefix, app_id), expected, "{prefix:?}");
        }
    }

    #[test]
    fn the_separator_is_refused_in_dapr_s_words() {
        let text = "input key/keyPrefix 'a||b' can't contain '||'";
        assert_eq!(KeyPrefix::AppId.key("s", "a", "a||b").unwrap_err(), text);
        assert_eq!(KeyPrefix::parse("A||b").unwrap_err().message, text);
    }
}

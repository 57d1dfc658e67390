//! A JSON object whose members stay as they stand in the text.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::pointer::Pointer;

/// The members of an object in their order, none of them read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(6));
                while let Some(Name(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Members).map(Self)
    }
}

impl<'a> Object<'a> {
    /// The member of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    /// A name that stands there more than once.
    pub(crate) fn repeated(&self) -> Option<&str> {
        let mut seen = HashSet::with_capacity(self.0.len());
        self.members().map(|(name, _)| name).find(|name| !seen.insert(*name))
    }

    /// Refuses names that not every reader understands the same way: of one that stands there more
    /// than once some take the first and some the last, and some take one for a known one that
    /// differs from it in case. What is locked here would not be what is called there.
    pub(crate) fn check(&self, known: &[&str], at: Pointer<'_>) -> Result<(), Fault> {
        if let Some(name) = self.repeated() {
            let text = format!("{name:?} stands there more than once");
            return Err(Fault::request(at.member(name), text));
        }
        for (name, _) in self.members().filter(|(name, _)| !known.contains(name)) {
            if let Some(meant) = known.iter().find(|known| resembles(name, known)) {
                let text = format!("{name:?} must be written {meant:?}");
                return Err(Fault::request(at.member(name), text));
            }
        }
        Ok(())
    }
}

/// Whether a name is a known one but for its case.
fn resembles(name: &str, known: &str) -> bool {
    // No letter of a known name is written in more than three bytes, in whichever case.
    name.len() <= 3 * known.len() && folded(name).eq(known.chars())
}

/// Both ways, for letters like the Kelvin sign that change only in one.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// Where in a text this part of it begins.
pub(crate) fn offset(text: &[u8], part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<String> {
        let object: Object<'_> = serde_json::from_str(text).unwrap();
        let fault = object.check(&["context", "extensions", "key"], Pointer::Root).err()?;
        Some(serde_json::to_value(&fault).unwrap()["source"]["pointer"].to_string())
    }

    #[test]
    fn members_are_in_order_and_as_they_came() {
        let text = r#" {"b": [1, 2] , "\u0061": 1e400} "#;
        let object: Object<'_> = serde_json::from_str(text).unwrap();
        let members: Vec<_> = object.members().map(|(name, value)| (name, value.get())).collect();
        assert_eq!(members, [("b", "[1, 2]"), ("a", "1e400")]);
        assert_eq!(offset(text.as_bytes(), object.get("b").unwrap().get()), 7);
    }

    #[test]
    fn a_name_that_is_read_in_two_ways_is_refused() {
        assert_eq!(refused(r#"{"context": 1, "other": 2, "Other": 3}"#), None);
        for (text, pointer) in [
            (r#"{"context": 1, "context": 2}"#, "/context"),
            (r#"{"context": 1, "contex\u0074": 2}"#, "/context"),
            (r#"{"a/b": 1, "a/b": 2}"#, "/a~1b"),
            (r#"{"Context": 1}"#, "/Context"),
            (r#"{"extenſions": 1}"#, "/extenſions"),
            ("{\"\u{212a}ey\": 1}", "/\u{212a}ey"),
        ] {
            assert_eq!(refused(text), Some(format!("{pointer:?}")), "{text}");
        }
    }
}

//! Where extensions stand in a text that is otherwise left as it is.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::object::{Object, offset};

/// Where the extensions of an object stand, or have to be put.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    at: Range<usize>,
    /// What has to be written before them.
    before: &'static str,
}

impl Place {
    /// In the object of which this is the text.
    pub(crate) fn of(members: &Object<'_>, text: &[u8]) -> Option<Self> {
        if let Some(extensions) = members.get("extensions").map(RawValue::get) {
            let start = offset(text, extensions);
            return Some(Self { at: start..start + extensions.len(), before: "" });
        }
        let end = text.iter().rposition(|byte| *byte == b'}')?;
        let is_empty = members.members().next().is_none();
        let before = if is_empty { r#""extensions":"# } else { r#","extensions":"# };
        Some(Self { at: end..end, before })
    }

    /// The same place in a longer text, in which the text begins there.
    pub(crate) fn behind(self, start: usize) -> Self {
        Self { at: self.at.start + start..self.at.end + start, ..self }
    }

    /// What stands there; nothing, where nothing does.
    pub(crate) fn read<'a>(&self, text: &'a [u8]) -> Vec<&'a RawValue> {
        serde_json::from_slice(&text[self.at.clone()]).unwrap_or_default()
    }

    /// The text with these extensions.
    pub(crate) fn filled(
        &self,
        text: &[u8],
        all: &[impl Serialize],
    ) -> serde_json::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(text.len() + 512);
        out.extend_from_slice(&text[..self.at.start]);
        out.extend_from_slice(self.before.as_bytes());
        serde_json::to_writer(&mut out, all)?;
        out.extend_from_slice(&text[self.at.end..]);
        Ok(out)
    }
}

/// The URN of an extension, if it has one.
pub(crate) fn urn_of(extension: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        urn: Cow<'a, str>,
    }
    serde_json::from_str(extension.get()).ok().map(|Named { urn }| urn)
}

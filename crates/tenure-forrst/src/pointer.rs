//! Places in a request, as JSON pointers.

use std::borrow::Cow;
use std::fmt;

/// A place in a request, written down only when something is wrong there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pointer<'a> {
    /// The document.
    Root,
    /// The extension of this number.
    Extension(usize),
    /// The options of the extension of this number.
    Options(usize),
    /// The arguments of the call.
    Arguments,
    Member(&'a Self, &'a str),
}

impl Pointer<'_> {
    /// The place of a member of what stands here.
    pub(crate) fn member<'b>(&'b self, name: &'b str) -> Pointer<'b> {
        Pointer::Member(self, name)
    }
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Extension(at) => write!(f, "/extensions/{at}"),
            Self::Options(at) => write!(f, "/extensions/{at}/options"),
            Self::Arguments => f.write_str("/call/arguments"),
            Self::Member(parent, name) => write!(f, "{parent}/{}", escaped(name)),
        }
    }
}

impl From<Pointer<'_>> for String {
    fn from(pointer: Pointer<'_>) -> Self {
        pointer.to_string()
    }
}

/// A name as a part of a pointer.
pub(crate) fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        Cow::Owned(name.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_the_standard_has_it() {
        let options = Pointer::Options(2);
        let ttl = options.member("ttl");
        assert_eq!(ttl.member("value").to_string(), "/extensions/2/options/ttl/value");
        assert_eq!(Pointer::Root.member("a/b~c").to_string(), "/a~1b~0c");
        assert_eq!(String::from(Pointer::Root), "");
    }
}

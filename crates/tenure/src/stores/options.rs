//! The options in the query of a store's URL.

use std::fmt;

use url::Url;

use crate::error::{Error, Result};

/// The options of one URL. Each is taken out once; one that nobody took is refused, because a
/// misspelt option must not be a silent default.
pub(crate) struct UrlOptions {
    pairs: Vec<(String, String)>,
}

/// Their names only: a value may be a secret.
impl fmt::Debug for UrlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pairs.iter().map(|(name, _)| name)).finish()
    }
}

impl UrlOptions {
    /// Splits the URL into what stands before the query, and the options.
    ///
    /// No error repeats the URL, which may carry a password.
    pub(crate) fn split(url: &str) -> Result<(Url, Self)> {
        let mut url = Url::parse(url)
            .map_err(|error| Error::invalid(format!("the store's URL is not one: {error}")))?;
        let pairs: Vec<_> = url.query_pairs().into_owned().collect();
        url.set_query(None);
        for (index, (name, _)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::invalid(format!("option {name:?} is given twice")));
            }
        }
        Ok((url, Self { pairs }))
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(given, _)| given == name)?;
        Some(self.pairs.remove(at).1)
    }

    /// A value of the kind that `expected` describes: "a number of 1 to 5".
    #[cfg(any(
        test,
        feature = "nats",
        feature = "object",
        feature = "postgres",
        feature = "remote"
    ))]
    pub(crate) fn parsed<T: std::str::FromStr>(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value = text.parse().map_err(|_| {
            let size = text.len();
            Error::invalid(format!("option {name} must be {expected}, its value has {size} bytes"))
        })?;
        Ok(Some(value))
    }

    #[cfg(any(test, feature = "nats", feature = "object", feature = "postgres"))]
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        self.parsed(name, "true or false")
    }

    /// Refuses what is left over. `known` are the options there are.
    pub(crate) fn finish(self, known: &[&str]) -> Result<()> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(format!(
                "option {name:?} is not known; there are: {}",
                known.join(", ")
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_out_and_the_rest_is_refused() {
        let (url, mut options) = UrlOptions::split("x://u:p@h/path?a=1&b=true&c=%20&d=4").unwrap();
        assert_eq!(url.as_str(), "x://u:p@h/path");
        assert_eq!(options.parsed::<u8>("a", "a number").unwrap(), Some(1));
        assert_eq!(options.flag("b").unwrap(), Some(true));
        assert_eq!(options.text("c").as_deref(), Some(" "));
        assert_eq!(options.text("c"), None);
        let text = options.finish(&["a", "b"]).unwrap_err().to_string();
        assert!(text.contains("\"d\"") && text.contains("a, b"), "{text}");
    }

    #[test]
    fn no_error_repeats_a_value_or_the_url() {
        let twice = UrlOptions::split("x://u:secret@h?a=1&a=2").unwrap_err();
        let none = UrlOptions::split("secret").unwrap_err();
        let mut options = UrlOptions::split("x://h?a=secret").unwrap().1;
        let wrong = options.parsed::<u8>("a", "a number of 1 to 5").unwrap_err();
        for error in [twice, none, wrong] {
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let shown = format!("{:?}", UrlOptions::split("x://h?key=secret").unwrap().1);
        assert!(!shown.contains("secret") && shown.contains("key"), "{shown}");
    }
}

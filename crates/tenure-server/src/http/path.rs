//! The key in a path, and the place that a query names.

use http::Uri;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::api::Place;
use crate::failure::Failure;

/// Where a key is, as every route takes it from the query.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Room {
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) store: String,
}

/// The place that a request is about: all that stands behind `prefix` is the key, slashes too.
pub(super) fn place(uri: &Uri, prefix: &str) -> Result<Place, Failure> {
    let key = uri.path().strip_prefix(prefix).unwrap_or_default();
    let key = percent_decode_str(key).decode_utf8().map_err(|_| {
        let size = key.len();
        Failure::invalid(format!("key must be UTF-8, this one of {size} bytes in the path is not"))
    })?;
    let Room { namespace, store } = query(uri)?;
    Ok(Place { store, namespace, key: key.into_owned() })
}

/// What the query says.
pub(super) fn query<T: serde::de::DeserializeOwned>(uri: &Uri) -> Result<T, Failure> {
    axum::extract::Query::try_from_uri(uri)
        .map(|query| query.0)
        .map_err(|error| Failure::invalid(format!("the query is wrong: {}", error.body_text())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Result<String, Failure> {
        place(&path.parse().unwrap(), "/v1/locks/").map(|place| place.key)
    }

    #[test]
    fn any_key_fits_into_a_path() {
        assert_eq!(key("/v1/locks/order:42").unwrap(), "order:42");
        assert_eq!(key("/v1/locks/a/b//c").unwrap(), "a/b//c");
        assert_eq!(key("/v1/locks/a%2Fb%25%20%C3%BC").unwrap(), "a/b% ü");
        assert_eq!(key("/v1/locks/100%").unwrap(), "100%");
        assert!(key("/v1/locks/%FF").is_err());
    }

    #[test]
    fn the_query_names_the_room() {
        let place = place(&"/v1/locks/k?namespace=n&store=s".parse().unwrap(), "/v1/locks/");
        let Place { store, namespace, key } = place.unwrap();
        assert_eq!((&*store, &*namespace, &*key), ("s", "n", "k"));
        assert!(super::place(&"/v1/locks/k?namspace=n".parse().unwrap(), "/v1/locks/").is_err());
    }
}

//! Slashes that are too many: Dapr forgives them, and clients rely on that when they put an address
//! that ends with one before a path.

use http::Uri;

const VERSIONS: [&str; 3] = ["v1.0", "v1.0-alpha1", ALPHA2];

/// The one whose paths go on with a resource, which has any slashes.
const ALPHA2: &str = "v1.0-alpha2";

/// How many names a path has before that.
const NAMES: usize = 3;

/// The address with only the slashes that it needs; `None` when it is not one of Dapr's.
pub(crate) fn tidied(uri: &Uri) -> Option<Uri> {
    let mut rest = uri.path();
    let mut names = Vec::new();
    for _ in 0..NAMES {
        let named = rest.trim_start_matches('/');
        let (name, tail) = named.split_once('/').unwrap_or((named, ""));
        names.push(name);
        rest = tail;
    }
    let version = names.first().filter(|version| VERSIONS.contains(version))?;
    if *version != ALPHA2 {
        rest = rest.trim_matches('/');
    }
    let parts = names.iter().chain(Some(&rest)).filter(|part| !part.is_empty());
    let mut path: String = parts.flat_map(|part| ["/", part]).collect();
    if let Some(query) = uri.query() {
        path = format!("{path}?{query}");
    }
    path.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_left() {
        for (path, expected) in [
            ("//v1.0-alpha1//lock///store//", Some("/v1.0-alpha1/lock/store")),
            ("/v1.0/healthz/?a=//", Some("/v1.0/healthz?a=//")),
            ("//v1.0-alpha2/lock//s/a//b/", Some("/v1.0-alpha2/lock/s/a//b/")),
            ("//v1.0-alpha2/lock/s///etc/", Some("/v1.0-alpha2/lock/s///etc/")),
            ("//v1.0-alpha2/lock/s//", Some("/v1.0-alpha2/lock/s//")),
            ("/v1.0-alpha2/lock/s/", Some("/v1.0-alpha2/lock/s")),
            ("/v1.0/metadata//k//", Some("/v1.0/metadata/k")),
            ("//v1.0-alpha1/lock/a%2F%2Fb", Some("/v1.0-alpha1/lock/a%2F%2Fb")),
            ("//v1/locks//a", None),
            ("//", None),
        ] {
            let tidied = tidied(&path.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(tidied.as_deref(), expected, "{path}");
        }
    }
}

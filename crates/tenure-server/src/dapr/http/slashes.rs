//! Slashes that are too many: Dapr forgives them, and clients rely on that when they put an address
//! that ends with one before a path.

use http::Uri;

const VERSIONS: [&str; 3] = ["v1.0", "v1.0-alpha1", "v1.0-alpha2"];

/// How many names a path begins with; a resource behind them keeps its slashes.
const NAMES: usize = 3;

/// The address with only the slashes that it needs; `None` when it is not one of Dapr's.
pub(crate) fn tidied(uri: &Uri) -> Option<Uri> {
    let first = uri.path().split('/').find(|part| !part.is_empty())?;
    if !VERSIONS.contains(&first) {
        return None;
    }
    let mut path = String::new();
    let mut rest = uri.path().trim_start_matches('/');
    for _ in 0..NAMES {
        let (name, tail) = rest.split_once('/').unwrap_or((rest, ""));
        if !name.is_empty() {
            path = format!("{path}/{name}");
        }
        rest = tail.trim_start_matches('/');
    }
    if !rest.is_empty() {
        path = format!("{path}/{rest}");
    }
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
            ("//v1.0-alpha2/lock//s//a//b/", Some("/v1.0-alpha2/lock/s/a//b/")),
            ("//v1.0-alpha1/lock/a%2F%2Fb", Some("/v1.0-alpha1/lock/a%2F%2Fb")),
            ("//v1/locks//a", None),
            ("//", None),
        ] {
            let tidied = tidied(&path.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(tidied.as_deref(), expected, "{path}");
        }
    }
}

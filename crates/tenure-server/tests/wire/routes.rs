//! The routes of the server as its source has them: a router tells nobody what is in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Every method and path of every router, like `GET /v1/locks`.
pub(crate) fn routes() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&file).unwrap();
        for service in text.split(".route_service(").skip(1) {
            found.insert(format!("POST {}", service.split('"').nth(1).unwrap()));
        }
        for route in text.split(".route(").skip(1) {
            // As far as the statement may go: the next call of the builder, or its end.
            let end = [".route(", ".with_state(", ";", "\n}"];
            let end = end.iter().filter_map(|end| route.find(end)).min().unwrap_or(route.len());
            let route = &route[..end];
            let path = route.split('"').nth(1).unwrap();
            let methods: Vec<_> = METHODS
                .iter()
                .filter(|method| {
                    [" ", "."].iter().any(|before| route.contains(&format!("{before}{method}(")))
                })
                .collect();
            assert!(!methods.is_empty(), "{}: no method for {path}", file.display());
            for method in methods {
                found.insert(format!("{} {}", method.to_uppercase(), path.replace('*', "")));
            }
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() {
            files.extend(sources(&path));
        } else {
            files.push(path);
        }
    }
    files
}

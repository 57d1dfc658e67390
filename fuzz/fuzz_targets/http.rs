//! Requests by HTTP and by Dapr's API: what is wrong with a body is told with a place in it and
//! without its values, and what was encoded into a path or a query is read as it was. Of Dapr's
//! paths only the slashes are taken away that are too many.

#![no_main]

use http::Uri;
use libfuzzer_sys::fuzz_target;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tenure_api::Code;
use tenure_server::fuzzing::{
    read_body, read_dapr_body, read_listing, read_place, read_watching, tidied_address,
};

// The kind, a line with a key, and a body.
fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let mut parts = rest.splitn(2, |byte| *byte == b'\n');
    let [key, body] = [(); 2].map(|()| parts.next().unwrap_or_default());
    let key = str::from_utf8(key).unwrap_or_default();
    if let Err(failure) = read_body(kind, body) {
        assert!(matches!(failure.code, Code::Invalid | Code::TooLarge), "{failure}");
        if let Some((_, at)) = failure.message.split_once("wrong at line ") {
            let (line, rest) = at.split_once(" column ").unwrap();
            let column = rest.split_once(": ").unwrap().0;
            within(body, line.parse().unwrap(), column.parse().unwrap());
        }
    }
    if let Err(message) = read_dapr_body(kind, body) {
        assert!(!message.is_empty());
    }
    if let Ok(mut body) = serde_json::from_slice(body) {
        plant(&mut body);
        let body = body.to_string();
        keeps_secrets(read_body(kind, body.as_bytes()).map_err(|failure| failure.message));
        // Go's own words repeat a duration, which is no secret.
        if kind % 4 != 2 {
            keeps_secrets(read_dapr_body(kind, body.as_bytes()));
        }
    }
    if let Ok(uri) = format!("/v1/locks/{key}").parse() {
        let _ = read_place(&uri);
    }
    queries(key);
    for front in ["", "//v1.0/", "/v1.0-alpha1//", "///v1.0-alpha2/"] {
        if let Ok(uri) = format!("{front}{key}").parse() {
            slashes(&uri);
        }
    }
    let path = format!("/v1/locks/{}", utf8_percent_encode(key, NON_ALPHANUMERIC));
    if let Ok(uri) = path.parse() {
        let (read, namespace, store) = read_place(&uri).unwrap();
        assert_eq!((&*read, &*namespace, &*store), (key, "", ""));
    }
});

/// A text as what stands behind a question mark, and as a part of that.
fn queries(text: &str) {
    if let Ok(uri) = format!("/v1/locks?{text}").parse() {
        let failures = [read_listing(&uri).map(drop).err(), read_watching(&uri).map(drop).err()];
        for failure in failures.into_iter().flatten() {
            assert_eq!(failure.code, Code::Invalid, "{failure}");
        }
    }
    let encoded = utf8_percent_encode(text, NON_ALPHANUMERIC);
    if let Ok(uri) = format!("/v1/locks?prefix={encoded}&limit=7&after=x{encoded}").parse() {
        let (prefix, limit, after) = read_listing(&uri).unwrap();
        assert_eq!((&*prefix, limit, after), (text, Some(7), Some(format!("x{text}"))));
    }
    if let Ok(uri) = format!("/v1/events?prefix={encoded}").parse() {
        assert_eq!(read_watching(&uri).unwrap(), text);
    }
}

/// What is named stays as it was, and so do the slashes of a resource, which may have any.
fn slashes(uri: &Uri) {
    let names = |uri: &Uri| -> Vec<String> {
        let names = uri.path().split('/').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    let named = names(uri);
    let version = named.first().map(String::as_str);
    let is_daprs = matches!(version, Some("v1.0" | "v1.0-alpha1" | "v1.0-alpha2"));
    let tidied = tidied_address(uri);
    assert_eq!(tidied.is_some(), is_daprs, "{uri}");
    let Some(tidied) = tidied else { return };
    assert_eq!(names(&tidied), named);
    assert_eq!(tidied.query(), uri.query());
    assert_eq!(tidied_address(&tidied).as_ref(), Some(&tidied));
    assert!(!tidied.path().starts_with("//"), "{tidied}");
    if version == Some("v1.0-alpha2") {
        assert_eq!(resource(tidied.path()), resource(uri.path()));
    } else {
        assert!(!tidied.path().ends_with('/'), "{tidied}");
    }
}

/// What stands behind the version, the word `lock` and the store, and one slash.
fn resource(path: &str) -> &str {
    let behind = (0..3).fold(path, |rest, _| {
        let named = rest.trim_start_matches('/');
        named.find('/').map_or("", |end| &named[end..])
    });
    behind.strip_prefix('/').unwrap_or(behind)
}

const SECRET: &str = "hunter2, expected hunter2 at line 2";
const SECRET_NUMBER: u64 = 73_197_319_731;

/// Puts secrets into the place of all values.
fn plant(json: &mut Value) {
    match json {
        Value::String(text) => SECRET.clone_into(text),
        Value::Number(number) => *number = SECRET_NUMBER.into(),
        Value::Array(items) => items.iter_mut().for_each(plant),
        Value::Object(members) => members.values_mut().for_each(plant),
        Value::Null | Value::Bool(_) => {}
    }
}

fn keeps_secrets(read: Result<(), String>) {
    if let Err(message) = read {
        assert!(!message.contains("hunter2"), "{message}");
        assert!(!message.contains("7319731"), "{message}");
    }
}

/// One past the end of a line is where its end is found missing.
fn within(body: &[u8], line: usize, column: usize) {
    let text = body.split(|byte| *byte == b'\n').nth(line.saturating_sub(1));
    let text = text.unwrap_or_else(|| panic!("there is no line {line}"));
    assert!(column <= text.len() + 1, "there is no column {column} in line {line}");
}

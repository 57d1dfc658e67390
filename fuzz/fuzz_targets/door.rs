//! The headers that say who calls: only the very token lets its owner in; and without one, no page
//! of another host is let in, nor whoever calls by a name that anyone could have pointed here.

#![no_main]

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use tenure_api::Code;
use tenure_server::fuzzing::identify_for_dapr;
use tenure_server::{Door, Guests, Identity, Token};

const DAPR_TOKEN: HeaderName = HeaderName::from_static("dapr-api-token");
const TOKEN: &str = "hunter2-hunter2";
const OURS: &str = "locks.example.org";

/// What those are told who bring no token, and those whose token is not known: the same for all.
const REFUSALS: [&str; 2] = ["a token or a certificate is needed", "the token is not known here"];

/// What a name in an address is made of, once a browser has read it.
const NAME: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-.";

// A line for each header.
fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let names = [AUTHORIZATION, DAPR_TOKEN, ORIGIN, HOST];
    let mut headers = HeaderMap::new();
    for (name, line) in names.into_iter().zip(&mut lines) {
        // An empty line is a header that is not there.
        if let Ok(value) = HeaderValue::from_bytes(line)
            && !line.is_empty()
        {
            headers.insert(name, value);
        }
    }
    by_token(&headers);
    without_token(&headers);
    by_name(lines.next().unwrap_or_default());
});

fn by_token(headers: &HeaderMap) {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = value(AUTHORIZATION).and_then(bearer);
    let daprs = value(DAPR_TOKEN).filter(|token| !token.is_empty());
    let door = Door::new(guests(TOKEN));
    // Of two tokens one counts, and the other is not tried.
    for (identified, brought) in [
        (door.identify(headers, &[]), bearer.or(daprs)),
        (identify_for_dapr(&door, headers), daprs.or(bearer)),
    ] {
        match identified {
            Ok(identity) => assert_eq!((&*identity.name, brought), ("reader", Some(TOKEN))),
            Err(failure) => {
                assert_ne!(brought, Some(TOKEN));
                assert_eq!(failure.code, Code::Unauthenticated);
                assert_eq!(failure.message, REFUSALS[usize::from(brought.is_some())]);
            }
        }
    }
    // Whatever is brought in that way is the token, if it is known by its digest.
    if let Some(token) = daprs.filter(|token| token.trim() == *token) {
        let door = Door::new(guests(token));
        let bearer = format!("bEARER  {token}");
        let alone = [(AUTHORIZATION, &*bearer), (DAPR_TOKEN, token)];
        for (name, value) in alone {
            let one = HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
            assert_eq!(&*door.identify(&one, &[]).unwrap().name, "reader");
        }
    }
}

/// The token behind the word for it, in any case, and a blank.
fn bearer(value: &str) -> Option<&str> {
    let (word, token) = value.split_once(' ')?;
    let token = token.trim();
    (word.to_ascii_lowercase() == "bearer" && !token.is_empty()).then_some(token)
}

/// Headers that bring no token, but may come from a browser.
fn without_token(headers: &HeaderMap) {
    let mut headers = headers.clone();
    headers.remove(AUTHORIZATION);
    headers.remove(DAPR_TOKEN);
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match open_door().identify(&headers, &[]) {
        Ok(_) => {
            let page = text(ORIGIN).map(|origin| origin.split_once("://").unwrap().1);
            assert!(page.is_none() || page == text(HOST));
        }
        Err(failure) => assert_eq!(failure.code, Code::Forbidden),
    }
}

/// No name under a domain is ours but the one that is.
fn by_name(bytes: &[u8]) {
    let name = bytes.iter().map(|byte| char::from(NAME[usize::from(*byte) % NAME.len()]));
    let name: String = name.collect();
    for (host, is_ours) in [
        (format!("{name}.example"), false),
        (format!("{name}.example:7117"), false),
        (format!("{name}x.{OURS}"), false),
        (OURS.to_owned(), true),
        (format!("{OURS}:7117"), true),
        ("[::1]:7117".to_owned(), true),
    ] {
        let value = HeaderValue::from_str(&host).unwrap();
        let headers = HeaderMap::from_iter([(HOST, value)]);
        assert_eq!(open_door().identify(&headers, &[]).is_ok(), is_ours, "{host}");
    }
}

fn guests(token: &str) -> Guests {
    let digest = Sha256::digest(token.as_bytes()).into();
    let token = Token { name: "reader".to_owned(), digest, grants: Vec::new() };
    Guests { tokens: vec![token], ..Guests::default() }
}

fn open_door() -> Door {
    let anonymous = Some(Identity::unrestricted("anonymous"));
    Door::new(Guests { anonymous, hosts: vec![OURS.to_owned()], ..Guests::default() })
}

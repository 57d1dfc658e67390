//! Who a browser calls for, and by which name it found this server.
//!
//! Any page can have a browser call a server on its user's machine. A call that may change
//! something names the page's host as its origin; and a page whose own name was made to point to
//! this server calls it by that name.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use tenure_api::Code;

use crate::failure::Failure;

/// Puts the host where HTTP/1 has it: HTTP/2 has it in the address.
pub(crate) fn name_host<B>(request: &mut Request<B>) {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = authority.and_then(|authority| HeaderValue::from_str(authority).ok());
    if let Some(host) = host {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
}

/// Fails for a call on behalf of a page that is not of this server.
pub(crate) fn check_origin(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let page = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    if page.is_some_and(|(_, page)| text(headers, header::HOST) == Some(page)) {
        return Ok(());
    }
    let what = "a page of another host needs a token to call this server";
    Err(Failure::new(Code::Forbidden, what))
}

/// Fails unless this server was called by its address, by one of its names, or by a name that no
/// one out there can have: one without a dot.
pub(crate) fn check_host(headers: &HeaderMap, names: &[String]) -> Result<(), Failure> {
    let Some(host) = text(headers, header::HOST) else { return Ok(()) };
    let authority: Option<Authority> = host.parse().ok();
    let name = authority.as_ref().map_or("", |authority| authority.host());
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_ours = (!name.is_empty() && !name.contains('.'))
        || name.ends_with(".localhost")
        || address.parse::<IpAddr>().is_ok()
        || names.iter().any(|ours| ours.eq_ignore_ascii_case(name));
    if is_ours {
        return Ok(());
    }
    let what = "without a token this server must be called by its address, or by a name that its \
                configuration has under hosts";
    Err(Failure::new(Code::Forbidden, what))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        headers
    }

    #[test]
    fn a_page_calls_its_own_server_and_no_other() {
        for (host, origin, may) in [
            ("127.0.0.1:7117", None, true),
            ("127.0.0.1:7117", Some("http://127.0.0.1:7117"), true),
            ("[::1]:7117", Some("https://[::1]:7117"), true),
            ("127.0.0.1:7117", Some("http://127.0.0.1:3000"), false),
            ("127.0.0.1:7117", Some("https://evil.example"), false),
            ("127.0.0.1:7117", Some("null"), false),
            ("127.0.0.1:7117", Some(""), false),
        ] {
            assert_eq!(check_origin(&headers(host, origin)).is_ok(), may, "{host} {origin:?}");
        }
    }

    #[test]
    fn a_name_that_others_can_point_anywhere_is_not_ours() {
        let names = ["locks.example.org".to_owned()];
        for (host, may) in [
            ("127.0.0.1:7117", true),
            ("10.0.0.7", true),
            ("[::1]:7117", true),
            ("localhost:7117", true),
            ("app.localhost", true),
            ("tenure:7117", true),
            ("Locks.example.org:7117", true),
            ("evil.example:7117", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(check_host(&headers(host, None), &names).is_ok(), may, "{host}");
        }
        assert!(check_host(&HeaderMap::new(), &names).is_ok(), "no browser leaves it out");
    }
}

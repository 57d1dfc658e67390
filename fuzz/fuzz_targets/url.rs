//! The URL of every store: read without connecting. What is read twice is the same twice, and
//! neither an error nor what was read shows the password.

#![no_main]

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use tenure::clock::SystemClock;
use tenure::error::Chain;
use tenure::stores::etcd::EtcdOptions;
use tenure::stores::nats::NatsOptions;
use tenure::stores::object::ObjectOptions;
use tenure::stores::postgres::PostgresOptions;
use tenure::stores::redis::RedisOptions;
use tenure::stores::remote::RemoteOptions;
use tenure::stores::{kind_of, open};
use tenure::{ErrorKind, Result};

const PASSWORD: &str = "hunter2hunter2";

fuzz_target!(|url: &str| {
    read(url);
    // With a password where one belongs.
    let has_login = |(scheme, _): &(&str, &str)| *scheme != "folder" && kind_of(scheme).is_some();
    if let Some((scheme, rest)) = url.split_once("://").filter(has_login) {
        let (login, rest) = rest.split_once('@').unwrap_or(("user", rest));
        let user = login.split_once(':').map_or(login, |(user, _)| user);
        if !user.contains(['/', '?', '#']) {
            read(&format!("{scheme}://{user}:{PASSWORD}@{rest}"));
        }
    }
});

fn read(url: &str) {
    match kind_of(url.split(':').next().unwrap_or_default()).map(|kind| kind.name) {
        Some("redis") => options(url, RedisOptions::new),
        Some("postgres") => options(url, PostgresOptions::new),
        Some("nats") => options(url, NatsOptions::new),
        Some("etcd") => options(url, EtcdOptions::new),
        Some("object") => options(url, ObjectOptions::new),
        Some("remote") => options(url, RemoteOptions::new),
        // Its path is taken as it stands, and opening it would make a file.
        Some("file") => {}
        _ => opened(url),
    }
}

/// In memory, or nowhere: neither takes time.
fn opened(url: &str) {
    let opening = pin!(open(url, Arc::new(SystemClock)));
    match opening.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(_)) => assert_eq!(url, "memory:"),
        Poll::Ready(read) => assert!(!shown(&read).contains(PASSWORD)),
        Poll::Pending => panic!("{url} is waited for"),
    }
}

fn options<T: Debug>(url: &str, new: fn(&str) -> Result<T>) {
    let (one, two) = (new(url), new(url));
    let (one, two) = (shown(&one), shown(&two));
    assert_eq!(one, two);
    assert!(!one.contains(PASSWORD), "shown: {one}");
}

fn shown<T: Debug>(read: &Result<T>) -> String {
    match read {
        Ok(options) => format!("{options:?}"),
        Err(error) => {
            let kinds = [ErrorKind::Invalid, ErrorKind::Unsupported];
            assert!(kinds.contains(&error.kind()), "{error:?}");
            format!("{error:?} {}", Chain(error))
        }
    }
}

//! The server's configuration: what is wrong is told with a line of the text and without its
//! values, and others are let in only with encryption and proof, or where that is said not to be
//! wanted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_server::config::Config;

const SECRET: &str = "hunter2, expected hunter2";

fuzz_target!(|text: &str| {
    if let Err(failure) = Config::parse(&planted(text)) {
        // What a field is called is no secret.
        let is_name = failure.message.contains("field") || failure.message.contains("key");
        assert!(is_name || !failure.message.contains("hunter2"), "{failure}");
    }
    match Config::parse(text) {
        Ok(config) => {
            if let Ok(address) = config.address() {
                let is_safe = config.tls.is_some() && config.has_guests();
                assert!(address.ip().is_loopback() || is_safe || config.insecure);
            }
            assert!(config.check().is_err() || config.address().is_ok());
        }
        Err(failure) => {
            let line = failure.message.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
            let line: usize = line.unwrap().0.parse().unwrap();
            assert!((1..=1 + text.matches('\n').count()).contains(&line), "{failure}");
        }
    }
});

/// The text with a secret in the place of texts that fields are set to.
fn planted(text: &str) -> String {
    let mut pieces = text.split("= \"");
    let mut planted = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        planted += "= \"";
        match piece.split_once('"') {
            Some((_, rest)) => planted += &format!("{SECRET}\"{rest}"),
            None => planted += piece,
        }
    }
    planted
}

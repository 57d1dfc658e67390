//! The server's configuration: what is wrong is told with a line of the text, and others are let in
//! only with encryption and proof, or where that is said not to be wanted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_server::config::Config;

fuzz_target!(|text: &str| {
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

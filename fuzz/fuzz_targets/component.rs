//! Dapr's components: each becomes a store whose URL is one of Redis, with the password where it
//! belongs and nowhere else.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure::stores::redis::RedisOptions;
use tenure_server::fuzzing::components;

fuzz_target!(|text: &str| {
    let Ok((config, _)) = components(text) else { return };
    for (name, store) in &config.stores {
        assert!(!name.is_empty() && store.raw_keys);
        let url = &store.url.0;
        assert!(["redis:", "rediss:", "redis+", "rediss+"].iter().any(|s| url.starts_with(s)));
        let _ = RedisOptions::new(url);
    }
});

//! NATS's answers: what says that a write went wrong is never taken for a grant, and what stands on
//! a key is read as it was written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tenure::fuzzing::{nats_ack, nats_entry};

fuzz_target!(|payload: &[u8]| {
    let document: Option<Value> = serde_json::from_slice(payload).ok();
    let code = |document: &Value| document["error"]["err_code"].as_u64();
    match nats_ack(payload) {
        Some(Ok((stream, sequence))) => {
            let document = document.as_ref().unwrap();
            assert_eq!(document["stream"], stream);
            assert_eq!(document["seq"], sequence);
        }
        Some(Err(refused)) => {
            let told = document.as_ref().and_then(code).unwrap_or_default();
            assert_eq!(refused, told);
        }
        None => {}
    }
    if let Ok(Some((sequence, _))) = nats_entry(payload) {
        assert_eq!(document.unwrap()["message"]["seq"].as_u64(), sequence);
    }
});

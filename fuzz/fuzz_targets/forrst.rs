//! Forrst's request document: what is read can be written and read again, and what is refused is
//! pointed at by a byte of the body or by a place in the document.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;
use tenure_forrst::Fault;
use tenure_forrst::fuzzing::{ReadRequest, Refused, read_request};

fuzz_target!(|body: &[u8]| {
    let document: Option<Value> = serde_json::from_slice(body).ok();
    match read_request(body) {
        Ok(ReadRequest { written, refused }) => {
            let again = read_request(written.to_string().as_bytes()).unwrap();
            assert_eq!(again.written, written);
            // What is not read need not fit.
            let Some(document) = document else { return };
            assert_eq!(document["id"], written["id"]);
            assert_eq!(document["call"]["function"], written["call"]["function"]);
            if let Some(fault) = refused {
                pointed_at(&fault, body, Some(&document));
            }
        }
        Err(Refused { id, faults }) => {
            assert!(!faults.is_empty());
            for fault in &faults {
                pointed_at(fault, body, document.as_ref());
            }
            if let (Some(id), Some(document)) = (id, document) {
                assert_eq!(document["id"], *id);
            }
        }
    }
});

fn pointed_at(fault: &Fault, body: &[u8], document: Option<&Value>) {
    let fault = serde_json::to_value(fault).unwrap();
    let source = &fault["source"];
    match document {
        None if fault["code"] == "PARSE_ERROR" => {
            assert!(source["position"].as_u64().unwrap() <= body.len() as u64, "{fault}");
        }
        None => assert!(serde_json::from_slice::<&RawValue>(body).is_ok(), "{fault}"),
        Some(document) => {
            assert_ne!(fault["code"], "PARSE_ERROR");
            let Some(mut pointer) = source["pointer"].as_str() else { return };
            // What is missing is pointed at too, and so may be what it is missing in.
            for _ in 0..2 {
                pointer = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            }
            assert!(document.pointer(pointer).is_some(), "{fault}");
        }
    }
}

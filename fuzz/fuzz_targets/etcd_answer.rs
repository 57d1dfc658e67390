//! Etcd's answers: what is read can be written, and reads as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure::fuzzing::etcd_answer;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    if let Some((written, is_same)) = etcd_answer(*kind, bytes) {
        assert!(is_same);
        assert_eq!(etcd_answer(*kind, &written).unwrap().0, written);
    }
});

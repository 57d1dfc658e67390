//! Times of day as text, and times and durations as protocol buffers have them: what is written is
//! read as what it was, as far as the writing is exact.

#![no_main]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use tenure_api::rfc3339::{milliseconds, parse, seconds};
use tenure_api::time::{from_wire, stamp, to_wire, unstamp};

/// The first second of the year 10000, which RFC 3339 has no room for.
const END: u64 = 253_402_300_800;

fuzz_target!(|input: (i64, i32, &str)| {
    let (whole, nanos, text) = input;
    if let Some(at) = parse(text) {
        written(at);
    }
    let at = unstamp(prost_types::Timestamp { seconds: whole, nanos });
    assert_eq!(unstamp(stamp(at)), at);
    written(at);
    let duration = prost_types::Duration { seconds: whole, nanos };
    match from_wire(&duration) {
        Some(read) => assert_eq!(to_wire(read), duration),
        None => assert!(whole < 0 || !(0..1_000_000_000).contains(&nanos)),
    }
});

fn written(at: SystemTime) {
    let (short, long) = (seconds(at), milliseconds(at));
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    if since.as_secs() < END {
        let whole = UNIX_EPOCH + Duration::from_secs(since.as_secs());
        assert_eq!(parse(&short), Some(whole), "{short}");
        let ms = Duration::from_millis(since.subsec_millis().into());
        assert_eq!(parse(&long), Some(whole + ms), "{long}");
    }
}

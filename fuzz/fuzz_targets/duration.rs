//! Durations as people and as Go write them: what is read can be written and read again, and what
//! both ways of writing take means the same in both.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tenure_api::duration::parse;
use tenure_server::fuzzing::go_duration;

fuzz_target!(|input: (u32, u8, u8, u16, &str)| {
    let (hours, minutes, seconds, ms, text) = input;
    let ours = parse(text);
    if let Ok(duration) = ours {
        let again = format!("{}.{:09}s", duration.as_secs(), duration.subsec_nanos());
        assert_eq!(parse(&again), Ok(duration));
        let units = text.split(|c: char| c.is_ascii_digit() || c == '.');
        let place = |unit| ["h", "m", "s", "ms"].iter().position(|known| *known == unit);
        let places = units.filter(|unit| !unit.is_empty()).map(place);
        let places: Vec<usize> = places.map(Option::unwrap).collect();
        assert!(places.is_sorted_by(|one, two| one < two), "{text}");
    }
    let gos = go_duration(text);
    if let Ok(Some(duration)) = gos {
        assert!(!duration.is_zero() && i64::try_from(duration.as_nanos()).is_ok());
    }
    if let (Ok(ours), Ok(gos)) = (ours, gos) {
        assert_eq!(ours, gos.unwrap_or_default());
    }
    let whole = format!("{hours}h{minutes}m{seconds}s{ms}ms");
    let spans = [(hours, 3_600_000), (minutes.into(), 60_000), (seconds.into(), 1000)];
    let sum = spans.iter().map(|(count, ms)| u64::from(*count) * ms).sum::<u64>() + u64::from(ms);
    match parse(&whole) {
        Ok(duration) => assert_eq!(duration, Duration::from_millis(sum)),
        Err(_) => assert!(sum > u64::MAX / 1_000_000),
    }
});

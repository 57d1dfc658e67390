//! Histories of locks: what is read can be written and read again, and a file that was cut off
//! anywhere gives the records that are whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_check::History;
use tenure_check::record::read;

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let whole = match read(bytes) {
        Ok(whole) => whole,
        Err(error) => return assert!(error.to_string().starts_with("line ")),
    };
    assert!(whole.torn <= 1);
    // One record for each line that is whole, and none for one that may not be.
    assert_eq!(whole.records.len(), bytes.iter().filter(|byte| **byte == b'\n').count());
    assert_eq!(whole.torn == 0, bytes.last().is_none_or(|byte| *byte == b'\n'));
    let mut written = Vec::new();
    for record in &whole.records {
        serde_json::to_writer(&mut written, record).unwrap();
        written.push(b'\n');
    }
    let again = read(&written).unwrap();
    assert_eq!((&again.records, again.torn), (&whole.records, 0));
    let cut = &bytes[..usize::from(cut).min(bytes.len())];
    assert!(whole.records.starts_with(&read(cut).unwrap().records));
    let history = History::new(whole.records);
    assert!(history.claims.iter().all(|claim| claim.asked <= history.end()));
    assert_eq!(history.by_key().values().map(Vec::len).sum::<usize>(), history.claims.len());
});

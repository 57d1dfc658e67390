//! Rows of the file store: a row with the right values is the record that they say, and any other
//! is none.

#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use tenure::fuzzing::{FileRows, SqlValue};
use tenure::{Holder, Owner};

thread_local! {
    static ROWS: FileRows = FileRows::new().unwrap();
}

#[derive(Debug)]
struct Row([SqlValue; 6]);

impl<'a> Arbitrary<'a> for Row {
    fn arbitrary(from: &mut Unstructured<'a>) -> Result<Self> {
        let mut values = [const { SqlValue::Null }; 6];
        for (at, value) in values.iter_mut().enumerate() {
            // Mostly of the right kind.
            *value = match from.int_in_range(0..=15)? {
                0 => SqlValue::Null,
                1 => SqlValue::Real(from.arbitrary()?),
                2 => SqlValue::Blob(from.arbitrary()?),
                3 => SqlValue::Integer(from.arbitrary()?),
                4 => SqlValue::Text(from.arbitrary()?),
                _ if at < 2 => SqlValue::Text(from.arbitrary()?),
                _ => SqlValue::Integer(from.arbitrary()?),
            };
        }
        Ok(Self(values))
    }
}

fuzz_target!(|row: Row| {
    let read = ROWS.with(|rows| rows.read(&row.0)).unwrap();
    let number = |value: &SqlValue| match value {
        SqlValue::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let [SqlValue::Text(owner), SqlValue::Text(holder), numbers @ ..] = &row.0 else {
        return assert!(read.is_none());
    };
    let numbers: Option<Vec<u64>> = numbers.iter().map(number).collect();
    match (Owner::parse(owner), Holder::new(holder), numbers.as_deref()) {
        (Ok(owner), Ok(holder), Some(&[fence, ttl, deadline, granted])) => {
            let read = read.unwrap();
            assert_eq!((read.owner, read.holder), (owner, holder));
            assert_eq!((read.fence.get(), read.deadline.as_nanos()), (fence, deadline));
            assert_eq!(read.ttl, Duration::from_nanos(ttl));
            assert_eq!(read.granted_at, UNIX_EPOCH + Duration::from_millis(granted));
        }
        _ => assert!(read.is_none()),
    }
});

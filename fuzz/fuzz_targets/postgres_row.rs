//! A row of PostgreSQL: what makes no sense is damage, and anything else is read as it stands
//! there.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure::ErrorKind;
use tenure::fuzzing::{PostgresRow, postgres_row};

// Two flags and what is odd, then the numbers, and the texts with zero bytes between.
fuzz_target!(|input: (u16, [i64; 5], &[u8])| {
    let (present, numbers, bytes) = input;
    let mut texts = bytes.splitn(3, |byte| *byte == 0).map(<[u8]>::to_vec);
    let mut values: [Option<Vec<u8>>; 10] = Default::default();
    values[0] = Some(vec![u8::from(present & 1 == 1)]);
    values[1] = Some(vec![u8::from(present & 2 == 2)]);
    for text in &mut values[2..5] {
        *text = texts.next();
    }
    for (value, number) in values[5..].iter_mut().zip(numbers) {
        *value = Some(number.to_be_bytes().to_vec());
    }
    // One of them may be missing, or of another length.
    let odd = usize::from(present >> 2) % 20;
    if let Some(value) = values.get_mut(odd) {
        *value = value.take().filter(|_| present & 4 == 4).map(|value| [value, vec![0]].concat());
    }
    let row = PostgresRow { values: values.clone() };
    match postgres_row(row) {
        Ok(lease) => {
            let text = |at: usize| values[at].as_deref().and_then(|text| str::from_utf8(text).ok());
            assert_eq!(Some(lease.key.as_str()), text(2));
            assert_eq!(Some(lease.owner.expose().as_str()), text(3));
            assert_eq!(Some(lease.holder.as_str()), text(4));
            let [fence, ttl, _, deadline, now] = numbers;
            assert_eq!(i64::try_from(lease.fence.get()), Ok(fence));
            assert_eq!(i128::try_from(lease.ttl.as_millis()), Ok(i128::from(ttl)));
            let left = (i128::from(deadline) - i128::from(now)).max(0);
            assert_eq!(i128::try_from(lease.remaining.as_micros()), Ok(left));
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged),
    }
});

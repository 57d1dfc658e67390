//! The keys of one lock, all of one hash slot, so that one script may touch them in a Cluster too.

use std::sync::OnceLock;

/// How many hash slots a Cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// What this store's own keys begin with. No lock may be called so.
pub(super) const OWN: &str = "tenure:";

const RECORD: &str = "tenure:lease:{";

/// What belongs to the lock on one key.
#[derive(Debug)]
pub(super) struct Names {
    /// Where they all live.
    pub(super) slot: u16,
    /// The record beside the lock: fence, holder and times of the grant.
    pub(super) record: String,
    /// The fence counter. One per slot and not per key: a million one-shot keys leave no more than
    /// there are slots.
    pub(super) counter: String,
}

impl Names {
    pub(super) fn of(key: &str) -> Self {
        let slot = slot_of(key.as_bytes());
        let tag = tag_of(slot);
        let record = format!("{RECORD}{tag}}}:{key}");
        Self { slot, record, counter: format!("tenure:fence:{{{tag}}}") }
    }
}

/// The key that a record belongs to.
pub(super) fn key_of(record: &str) -> Option<&str> {
    let (_, key) = record.strip_prefix(RECORD)?.split_once("}:")?;
    Some(key)
}

/// The pattern of the records of all keys that begin with `prefix`.
pub(super) fn records_of(prefix: &str) -> String {
    let mut pattern = format!("{RECORD}*}}:");
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

/// The slot of a key, by the rule of Redis Cluster: that of its `{tag}`, if it has one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = || {
        let open = key.iter().position(|&byte| byte == b'{')?;
        let inner = &key[open + 1..];
        let close = inner.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &inner[..close])
    };
    crc16(tag().unwrap_or(key)) % SLOTS
}

/// A number whose text hashes to this slot.
pub(super) fn tag_of(slot: u16) -> u32 {
    tags()[usize::from(slot)]
}

/// For every slot the smallest number whose text hashes to it.
fn tags() -> &'static [u32] {
    static TAGS: OnceLock<Vec<u32>> = OnceLock::new();
    TAGS.get_or_init(|| {
        let mut tags = vec![None; usize::from(SLOTS)];
        let mut missing = tags.len();
        for number in 0.. {
            let tag = &mut tags[usize::from(slot_of(number.to_string().as_bytes()))];
            if tag.is_none() {
                *tag = Some(number);
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        tags.into_iter().flatten().collect()
    })
}

/// CRC-16/XMODEM, as Redis Cluster uses it.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = table();
    bytes.iter().fold(0, |crc: u16, byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ TABLE[usize::from(high ^ byte)]
    })
}

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // From the specification of Redis Cluster, and by `CLUSTER KEYSLOT`.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
    }

    #[test]
    fn what_belongs_to_a_key_is_in_its_slot() {
        for key in ["a", "t1/default/order:42", "{tag}x", "x{}y", "}{", "{", "ü{🔒}", "{{a}}}:{b}"]
        {
            let names = Names::of(key);
            assert_eq!(names.slot, slot_of(key.as_bytes()), "{key}");
            assert_eq!(slot_of(names.record.as_bytes()), names.slot, "{key}");
            assert_eq!(slot_of(names.counter.as_bytes()), names.slot, "{key}");
            assert_eq!(key_of(&names.record), Some(key));
        }
    }

    #[test]
    fn every_slot_has_its_tag() {
        assert_eq!(tags().len(), usize::from(SLOTS));
        for (slot, tag) in tags().iter().enumerate() {
            assert_eq!(usize::from(slot_of(tag.to_string().as_bytes())), slot);
        }
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(records_of("a*[b]?\\"), "tenure:lease:{*}:a\\*\\[b\\]\\?\\\\*");
        assert_eq!(key_of("tenure:fence:{1}"), None);
    }
}

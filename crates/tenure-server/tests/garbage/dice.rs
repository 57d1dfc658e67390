//! Chance that can be repeated.

use std::ops::Range;

/// How many broken requests each kind of body is sent.
const ROUNDS: u64 = 4000;

/// The same numbers for the same seed (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(sides).unwrap()).unwrap()
    }

    /// The bytes with some of them changed, doubled, cut out or put in.
    pub(crate) fn break_up(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut broken = bytes.to_vec();
        for _ in 0..=self.roll(4) {
            if broken.is_empty() {
                broken.push(0);
            }
            let at = self.roll(broken.len());
            match self.roll(5) {
                0 => broken[at] = u8::try_from(self.roll(256)).unwrap(),
                1 => broken.insert(at, br#"{}[]",:\0"#[self.roll(9)]),
                2 => broken.truncate(at),
                3 => drop(broken.remove(at)),
                _ => {
                    let tail = broken[at..].to_vec();
                    broken.extend(tail);
                }
            }
        }
        broken
    }
}

/// The seeds of this run: `SEEDS` and `BASE` choose how many and from where, `SEED=n` one alone.
pub(crate) fn seeds() -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("SEED") {
        return seed..seed + 1;
    }
    let base = number("BASE").unwrap_or(0);
    base..base + number("SEEDS").unwrap_or(ROUNDS)
}

/// How to see it again.
pub(crate) fn replay(seed: u64) -> String {
    format!("replay: SEED={seed} cargo test -p tenure-server --test garbage")
}

//! All chance of a run, from one seed.

/// Numbers that look random and are the same for the same seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring states.
        Self(mix(seed.wrapping_add(0x5851_F42D_4C95_7F2D)))
    }

    /// The sequence of one part of a run: no two parts of a seed have the same.
    pub(crate) fn part(seed: u64, part: u64) -> Self {
        Self::new(seed ^ mix(part.wrapping_add(1)))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// True in so many of a thousand draws.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A number of milliseconds from `from` up to `to`.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> std::time::Duration {
        let micros = 1000 * to.saturating_sub(from);
        std::time::Duration::from_micros(1000 * from + self.below(micros + 1))
    }

    /// One of `items`, if there is any.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        let place = usize::try_from(self.below(items.len() as u64)).unwrap_or(0);
        items.get(place).copied()
    }
}

fn mix(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence_and_its_parts_differ() {
        let draw = |mut dice: Dice| [dice.next(), dice.below(10), dice.next()];
        assert_eq!(draw(Dice::new(7)), draw(Dice::new(7)));
        assert_ne!(draw(Dice::new(7)), draw(Dice::new(8)));
        assert_ne!(draw(Dice::part(7, 0)), draw(Dice::part(7, 1)));
    }
}

//! From figures to places on a side of a chart, and the round figures to write there.

/// How far apart figures stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// By their difference, from 0 on.
    Linear,
    /// By their ratio.
    Log,
}

/// So many decades or more, and only powers of ten are written.
const DECADES_MANY: f64 = 3.0;
/// What the logarithm of a round figure may be off.
const SLACK: f64 = 1e-9;

/// One side of a chart.
#[derive(Debug)]
pub(crate) struct Ruler {
    scale: Scale,
    ticks: Vec<f64>,
}

impl Ruler {
    /// A ruler from one round figure to another, with all of these between them.
    pub(crate) fn around(scale: Scale, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().filter(|value| value.is_finite());
        let ticks = match scale {
            Scale::Linear => linear_ticks(values.fold(0.0, f64::max)),
            Scale::Log => {
                let positive = values.filter(|value| *value > 0.0);
                let ends = positive.fold(None, |ends: Option<(f64, f64)>, value| {
                    let (low, high) = ends.unwrap_or((value, value));
                    Some((low.min(value), high.max(value)))
                });
                let (low, high) = ends.unwrap_or((1.0, 10.0));
                log_ticks(low, high)
            }
        };
        Self { scale, ticks }
    }

    /// A ruler on which exactly these are written.
    pub(crate) fn at(scale: Scale, values: impl IntoIterator<Item = f64>) -> Self {
        let mut ticks: Vec<f64> = values.into_iter().collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        Self { scale, ticks }
    }

    pub(crate) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// How far along a figure stands: 0 at the first tick, 1 at the last. In the middle where
    /// there is only one.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let (Some(low), Some(high)) = (self.ticks.first(), self.ticks.last()) else { return 0.5 };
        let [low, high, value] = [*low, *high, value].map(|value| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        });
        if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }
}

/// From 0 to the first round figure that is not below `max`, in about five steps.
fn linear_ticks(max: f64) -> Vec<f64> {
    let max = if max > 0.0 { max } else { 1.0 };
    let least = max / 5.0;
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step >= least - SLACK * power).unwrap_or(least);
    let count = (max / step - SLACK).ceil().max(1.0) as usize;
    (0..=count).map(|at| at as f64 * step).collect()
}

/// Round figures from one that is not above `low` to one that is not below `high`.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let first = (low.log10() + SLACK).floor();
    let last = (high.log10() - SLACK).ceil().max(first + 1.0);
    let powers = (first as i32..=last as i32).map(|power| 10_f64.powi(power));
    if last - first >= DECADES_MANY {
        return powers.collect();
    }
    let all: Vec<f64> = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * power)).collect();
    let from = all.iter().rposition(|tick| *tick <= low * (1.0 + SLACK)).unwrap_or(0);
    let to = all.iter().position(|tick| *tick >= high * (1.0 - SLACK)).unwrap_or(all.len() - 1);
    all[from..=to.max(from + 1).min(all.len() - 1)].to_vec()
}

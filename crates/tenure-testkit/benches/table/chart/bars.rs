//! Bars beside each other, a figure each.

use super::{Anchor, Axis, Canvas, Ruler, THEIRS, WIDTH, room};

const TOP: f64 = 64.0;
const STEP: f64 = 32.0;
const BAR: f64 = 20.0;
const GAP: f64 = 14.0;
const EDGE: f64 = 20.0;

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Not ours, but what ours is measured against.
    pub(crate) is_theirs: bool,
    /// Too unsteady to judge by.
    pub(crate) is_unsure: bool,
}

/// A figure to be reached, or not to be passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) value: f64,
    pub(crate) name: &'static str,
}

/// A chart of bars, with the figure of each at its side.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) axis: Axis,
    pub(crate) bars: Vec<Bar>,
    pub(crate) goal: Option<Goal>,
    /// Small lines below it.
    pub(crate) foot: Vec<String>,
}

impl Bars {
    pub(crate) fn draw(self) -> String {
        let values = self.bars.iter().map(|bar| bar.value);
        let ruler = Ruler::around(self.axis.scale, values.chain(self.goal.map(|goal| goal.value)));
        let names = self.bars.iter().map(|bar| room(&bar.name)).fold(0.0, f64::max);
        let mark = |bar: &Bar| if bar.is_unsure { " ?" } else { "" };
        let figure = |bar: &Bar| (self.axis.tick)(bar.value) + mark(bar);
        let figures = self.bars.iter().map(|bar| room(&figure(bar))).fold(0.0, f64::max);
        let (left, right) = (EDGE + names + GAP, WIDTH - EDGE - figures - GAP);
        let place = |value: f64| left + ruler.share(value) * (right - left);
        let bottom = TOP + self.bars.len() as f64 * STEP;
        let mut canvas = Canvas::new(&self.title, bottom + 62.0);
        for &tick in ruler.ticks() {
            let at = place(tick);
            canvas.stroke("grid", [at, TOP], [at, bottom]);
            canvas.text("faint", [at, bottom + 20.0], Anchor::Middle, &(self.axis.tick)(tick));
        }
        let middle = f64::midpoint(left, right);
        canvas.text("ink", [middle, bottom + 44.0], Anchor::Middle, self.axis.label);
        for (at, bar) in self.bars.iter().enumerate() {
            let top = TOP + at as f64 * STEP + (STEP - BAR) / 2.0;
            let colour = if bar.is_theirs { THEIRS } else { 0 };
            let pale = if bar.is_unsure { " pale" } else { "" };
            let width = (place(bar.value) - left).max(1.0);
            canvas.push(&format!(
                "<rect class=\"c{colour} bar{pale}\" x=\"{left:.1}\" y=\"{top:.1}\" \
                 width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"/>"
            ));
            let line = top + BAR / 2.0 + 4.5;
            canvas.text("ink", [left - GAP, line], Anchor::End, &bar.name);
            canvas.text("ink", [WIDTH - EDGE, line], Anchor::End, &figure(bar));
        }
        if let Some(Goal { value, name }) = self.goal {
            let at = place(value);
            canvas.stroke("goal", [at, TOP - 6.0], [at, bottom]);
            canvas.text("ink", [at, TOP - 12.0], Anchor::Middle, name);
        }
        canvas.finish(&self.foot)
    }
}

//! Lines over a row of figures.

use super::{Anchor, Axis, COLOURS, Canvas, Ruler, WIDTH, room};

const HEIGHT: f64 = 420.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = HEIGHT - 62.0;
const RIGHT: f64 = 24.0;
/// A stroke of the line and what is left free around it, before each name.
const SAMPLE: f64 = 40.0;
/// Between two names.
const STEP: f64 = 24.0;

/// The shapes that mark the points of each line, for whoever cannot tell the colours apart.
const SHAPES: [&str; 11] = [
    "M-4.5,0A4.5,4.5 0 1 0 4.5,0A4.5,4.5 0 1 0 -4.5,0Z",
    "M-4,-4H4V4H-4Z",
    "M0,-5.5L5,4H-5Z",
    "M0,-6L6,0L0,6L-6,0Z",
    "M0,5.5L5,-4H-5Z",
    "M-5,-2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z",
    "M-3,-6H3L6,0L3,6H-3L-6,0Z",
    "M0,-6L2,-2L6,0L2,2L0,6L-2,2L-6,0L-2,-2Z",
    "M-5,-5H5L-5,5H5Z",
    "M-2,-6H2V6H-2Z",
    "M-6,-2H6V2H-6Z",
];
/// There is one more than there are colours: the eleventh line has a colour of another, but not its
/// shape, and so on.
const _: () = assert!(SHAPES.len() == COLOURS + 1, "two lines would look alike");

/// One point of a line.
#[derive(Debug)]
pub(crate) struct Dot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Too unsteady to judge by.
    pub(crate) is_unsure: bool,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) dots: Vec<Dot>,
    /// Not ours, but what ours is measured against.
    pub(crate) is_theirs: bool,
}

/// A chart of lines. Below it are exactly the figures that were measured.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Small lines below it.
    pub(crate) foot: Vec<String>,
}

impl Lines {
    pub(crate) fn draw(mut self) -> String {
        for series in &mut self.series {
            series.dots.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        let dots = || self.series.iter().flat_map(|series| &series.dots);
        let y = Ruler::around(self.y.scale, dots().map(|dot| dot.y));
        let widest = y.ticks().iter().map(|tick| room(&(self.y.tick)(*tick))).fold(0.0, f64::max);
        let names = self.series.iter().map(|series| room(&series.name)).fold(0.0, f64::max);
        let frame = Frame {
            left: 48.0 + widest,
            right: WIDTH - RIGHT - SAMPLE - names - 12.0,
            x: Ruler::at(self.x.scale, dots().map(|dot| dot.x)),
            y,
        };
        let mut canvas = Canvas::new(&self.title, HEIGHT);
        frame.sides(&mut canvas, &self.x, &self.y);
        // A line has the same colour in every chart that has the same lines, but the names stand in
        // the order in which the lines end.
        let mut named: Vec<(usize, &Series)> = self.series.iter().enumerate().collect();
        let end = |series: &Series| series.dots.last().map_or(0.0, |dot| dot.y);
        named.sort_by(|(_, a), (_, b)| end(b).total_cmp(&end(a)));
        for (line, (at, series)) in named.into_iter().enumerate() {
            self.line(&mut canvas, &frame, at, series);
            name(&mut canvas, [frame.right + 20.0, TOP + 8.0 + line as f64 * STEP], at, series);
        }
        canvas.finish(&self.foot)
    }

    fn line(&self, canvas: &mut Canvas, frame: &Frame, at: usize, series: &Series) {
        let places = series.dots.iter().map(|dot| frame.place(dot.x, dot.y));
        let path: Vec<String> = places.map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let class = class(at, series.is_theirs);
        canvas.push(&format!(r#"<polyline class="{class}" points="{}"/>"#, path.join(" ")));
        for dot in &series.dots {
            let (x, y) = ((self.x.tick)(dot.x), (self.y.tick)(dot.y));
            let mark = if dot.is_unsure { " ?" } else { "" };
            let told = format!("{}, {x}: {y}{mark}", series.name);
            let [x, y] = frame.place(dot.x, dot.y);
            marker(canvas, at, [x, y], &told);
            if dot.is_unsure {
                canvas.text("faint", [x + 7.0, y - 5.0], Anchor::Start, "?");
            }
        }
    }
}

/// Where the lines are, within the chart.
struct Frame {
    left: f64,
    right: f64,
    x: Ruler,
    y: Ruler,
}

impl Frame {
    fn place(&self, x: f64, y: f64) -> [f64; 2] {
        // A little inside, so that the first points are not on the side.
        let inset = 24.0;
        let width = self.right - self.left - 2.0 * inset;
        [self.left + inset + self.x.share(x) * width, BOTTOM - self.y.share(y) * (BOTTOM - TOP)]
    }

    fn sides(&self, canvas: &mut Canvas, x: &Axis, y: &Axis) {
        for &tick in self.y.ticks() {
            let at = BOTTOM - self.y.share(tick) * (BOTTOM - TOP);
            canvas.stroke("grid", [self.left, at], [self.right, at]);
            canvas.text("faint", [self.left - 8.0, at + 4.5], Anchor::End, &(y.tick)(tick));
        }
        for &tick in self.x.ticks() {
            let [at, _] = self.place(tick, 0.0);
            canvas.stroke("grid", [at, BOTTOM], [at, BOTTOM + 6.0]);
            canvas.text("faint", [at, BOTTOM + 22.0], Anchor::Middle, &(x.tick)(tick));
        }
        let middle = f64::midpoint(self.left, self.right);
        canvas.text("ink", [middle, BOTTOM + 46.0], Anchor::Middle, x.label);
        let centre = f64::midpoint(TOP, BOTTOM);
        canvas.push(&format!(r#"<g transform="translate(24 {centre:.1}) rotate(-90)">"#));
        canvas.text("ink", [0.0, 0.0], Anchor::Middle, y.label);
        canvas.push("</g>");
    }
}

fn class(at: usize, is_theirs: bool) -> String {
    format!("c{} line{}", at % COLOURS, if is_theirs { " theirs" } else { "" })
}

fn name(canvas: &mut Canvas, [x, y]: [f64; 2], at: usize, series: &Series) {
    canvas.stroke(&class(at, series.is_theirs), [x, y - 4.0], [x + SAMPLE - 10.0, y - 4.0]);
    marker(canvas, at, [x + (SAMPLE - 10.0) / 2.0, y - 4.0], &series.name);
    canvas.text("ink", [x + SAMPLE, y], Anchor::Start, &series.name);
}

fn marker(canvas: &mut Canvas, at: usize, [x, y]: [f64; 2], told: &str) {
    let (colour, shape, told) = (at % COLOURS, SHAPES[at % SHAPES.len()], super::escaped(told));
    canvas.push(&format!(
        "<path class=\"c{colour}\" transform=\"translate({x:.1} {y:.1})\" d=\"{shape}\">\
         <title>{told}</title></path>"
    ));
}

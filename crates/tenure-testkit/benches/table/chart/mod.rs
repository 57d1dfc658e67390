//! Charts as SVG, written by hand: lines over a row of figures, and bars beside each other.
//!
//! They are looked at on light and on dark pages: the colours follow what the reader prefers.

mod bars;
mod lines;
mod scale;

pub(crate) use bars::{Bar, Bars, Goal};
pub(crate) use lines::{Dot, Lines, Series};
pub(crate) use scale::{Ruler, Scale};

/// What is written along one side of a chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) scale: Scale,
    /// How a figure is written there.
    pub(crate) tick: fn(f64) -> String,
}

const WIDTH: f64 = 760.0;
/// The height of a line below a chart.
const FOOT: f64 = 16.0;
/// About the width of a letter, so that room can be left for a text without measuring it.
const LETTER: f64 = 7.2;
/// As many as there are in the style sheet.
const COLOURS: usize = 10;
/// The colour of whatever is not ours, where there are only two kinds.
const THEIRS: usize = 5;

/// The colours come first, so that what is no area can take the filling back.
const STYLE: &str = "\
.c0{stroke:#0072b2;fill:#0072b2}.c1{stroke:#d55e00;fill:#d55e00}.c2{stroke:#00856a;fill:#00856a}
.c3{stroke:#b0499a;fill:#b0499a}.c4{stroke:#a37b00;fill:#a37b00}.c5{stroke:#6e7781;fill:#6e7781}
.c6{stroke:#cf222e;fill:#cf222e}.c7{stroke:#6f42c1;fill:#6f42c1}.c8{stroke:#7a4a2b;fill:#7a4a2b}
.c9{stroke:#5c8a00;fill:#5c8a00}
.back{fill:#fff}.ink{fill:#1f2328}.faint{fill:#59636e}.grid{stroke:#d1d9e0}
.goal{stroke:#1f2328;stroke-dasharray:5 4}.line{fill:none;stroke-width:2}
.theirs{stroke-dasharray:7 4}.bar{stroke:none}.pale{opacity:.45}
@media(prefers-color-scheme:dark){
.c0{stroke:#58a6e8;fill:#58a6e8}.c1{stroke:#ff9349;fill:#ff9349}.c2{stroke:#3fcfa4;fill:#3fcfa4}
.c3{stroke:#e48fd0;fill:#e48fd0}.c4{stroke:#e3b341;fill:#e3b341}.c5{stroke:#9ea7b3;fill:#9ea7b3}
.c6{stroke:#ff7b72;fill:#ff7b72}.c7{stroke:#b392f0;fill:#b392f0}.c8{stroke:#c99a7a;fill:#c99a7a}
.c9{stroke:#a5cf3f;fill:#a5cf3f}
.back{fill:#0d1117}.ink{fill:#f0f6fc}.faint{fill:#9198a1}.grid{stroke:#3d444d}
.goal{stroke:#f0f6fc}.line{fill:none}.bar{stroke:none}}
";

/// Where a text ends up relative to its place.
#[derive(Clone, Copy, Debug)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that grows piece by piece.
#[derive(Debug)]
struct Canvas {
    height: f64,
    title: String,
    body: String,
}

impl Canvas {
    fn new(title: &str, height: f64) -> Self {
        let mut canvas = Self { height, title: escaped(title), body: String::new() };
        canvas.push(&format!(
            r#"<text class="ink" x="20" y="30" font-size="16" font-weight="600">{}</text>"#,
            escaped(title)
        ));
        canvas
    }

    fn push(&mut self, piece: &str) {
        self.body += piece;
        self.body.push('\n');
    }

    fn text(&mut self, class: &str, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.push(&format!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    fn stroke(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.push(&format!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    /// The drawing, with these small lines below it.
    fn finish(mut self, foot: &[String]) -> String {
        for line in foot {
            self.height += FOOT;
            let (y, line) = (self.height - FOOT, escaped(line));
            self.push(&format!(
                r#"<text class="faint" x="20" y="{y:.1}" font-size="10">{line}</text>"#
            ));
        }
        let Self { height, title, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<style>\n{STYLE}</style>\n\
             <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n{body}</svg>\n"
        )
    }
}

/// The room that a text takes, about.
fn room(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

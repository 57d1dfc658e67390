//! The charts of the benchmark, which itself has no harness for tests.

#[path = "../benches/table/chart/mod.rs"]
mod chart;

use chart::{Axis, Bar, Bars, Dot, Goal, Lines, Ruler, Scale, Series};

fn axis(scale: Scale) -> Axis {
    Axis { label: "how much", scale, tick: |value| format!("{value:.0}") }
}

fn series(name: &str, points: &[[f64; 2]]) -> Series {
    let dots = points.iter().map(|[x, y]| Dot { x: *x, y: *y, is_unsure: false }).collect();
    Series { name: name.to_owned(), dots, is_theirs: false }
}

fn lines(scale: Scale, series: Vec<Series>) -> String {
    let (title, foot) = ("Lines".to_owned(), foot());
    Lines { title, x: axis(Scale::Log), y: axis(scale), series, foot }.draw()
}

fn bar(name: &str, value: f64) -> Bar {
    Bar { name: name.to_owned(), value, is_theirs: false, is_unsure: false }
}

fn bars(values: &[(&str, f64)], goal: Option<Goal>) -> String {
    drawn(values.iter().map(|(name, value)| bar(name, *value)).collect(), goal)
}

fn drawn(bars: Vec<Bar>, goal: Option<Goal>) -> String {
    let (title, foot) = ("Bars".to_owned(), foot());
    Bars { title, axis: axis(Scale::Linear), bars, goal, foot }.draw()
}

fn foot() -> Vec<String> {
    vec!["made of this".to_owned(), "on <that>".to_owned()]
}

#[test]
fn whoever_sees_a_chart_alone_knows_where_it_comes_from() {
    for chart in [bars(&[("a", 1.0)], None), lines(Scale::Log, vec![series("a", &[[1.0, 1.0]])])] {
        assert_well_formed(&chart);
        assert!(
            chart.contains(">made of this</text>") && chart.contains(">on &lt;that&gt;</text>")
        );
        let places = chart.match_indices("made of this").chain(chart.match_indices("on &lt;that"));
        let lowest = places.filter_map(|(at, _)| {
            let tag = &chart[..at];
            let y = tag.rsplit_once(" y=\"")?.1;
            y.split('"').next()?.parse::<f64>().ok()
        });
        let height = chart.split_once(" height=\"").and_then(|(_, rest)| rest.split('"').next());
        let height: f64 = height.unwrap().parse().unwrap();
        assert!(lowest.into_iter().all(|y| y < height), "{chart}");
    }
}

/// Every tag that is opened is closed, in order, and every number is one.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} is not closed: {svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn a_linear_ruler_goes_from_nothing_to_a_round_figure() {
    assert_eq!(Ruler::around(Scale::Linear, [0.3, 1.25]).ticks(), [0.0, 0.5, 1.0, 1.5]);
    assert_eq!(Ruler::around(Scale::Linear, [10.0]).ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    let high = Ruler::around(Scale::Linear, [41_234.0]);
    assert_eq!(high.ticks(), [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0, 50_000.0]);
    assert_eq!(Ruler::around(Scale::Linear, []).ticks().first(), Some(&0.0));
}

#[test]
fn a_ruler_of_ratios_has_powers_or_what_is_between_them() {
    assert_eq!(Ruler::around(Scale::Log, [3.0, 1000.0]).ticks(), [1.0, 10.0, 100.0, 1000.0]);
    assert_eq!(Ruler::around(Scale::Log, [3.0, 40.0]).ticks(), [2.0, 5.0, 10.0, 20.0, 50.0]);
    assert_eq!(Ruler::around(Scale::Log, [2.0]).ticks(), [2.0, 5.0]);
    // What has no logarithm stands nowhere, and breaks nothing.
    let odd = [0.0, -1.0, f64::NAN, f64::INFINITY, 2.0, 5.0];
    assert_eq!(Ruler::around(Scale::Log, odd).ticks(), [2.0, 5.0]);
    assert_eq!(Ruler::around(Scale::Log, []).ticks().len(), 4);
}

#[test]
fn figures_stand_by_difference_or_by_ratio() {
    let linear = Ruler::around(Scale::Linear, [10.0]);
    assert!((linear.share(2.5) - 0.25).abs() < 1e-9);
    let log = Ruler::around(Scale::Log, [1.0, 10_000.0]);
    assert!((log.share(100.0) - 0.5).abs() < 1e-9);
    for value in [-1.0, 0.0, 1e9] {
        assert!((0.0..=1.0).contains(&log.share(value)), "{value}");
    }
}

#[test]
fn what_was_measured_is_what_is_written() {
    let ruler = Ruler::at(Scale::Log, [100.0, 1.0, 10.0, 1.0]);
    assert_eq!(ruler.ticks(), [1.0, 10.0, 100.0]);
    assert!((ruler.share(10.0) - 0.5).abs() < 1e-9);
    assert!((Ruler::at(Scale::Log, [7.0]).share(7.0) - 0.5).abs() < 1e-9);
}

#[test]
fn a_chart_of_one_point_is_a_chart() {
    for scale in [Scale::Linear, Scale::Log] {
        let drawn = lines(scale, vec![series("alone", &[[1.0, 5.0]])]);
        assert_well_formed(&drawn);
        assert!(drawn.contains(">alone</text>") && drawn.contains("<polyline"), "{drawn}");
    }
    assert_well_formed(&bars(&[("alone", 0.0)], None));
}

#[test]
fn names_are_escaped() {
    let name = r#"<a> & "b""#;
    let drawn = lines(Scale::Linear, vec![series(name, &[[1.0, 1.0], [10.0, 2.0]])]);
    assert_well_formed(&drawn);
    assert!(drawn.contains("&lt;a&gt; &amp; &quot;b&quot;"), "{drawn}");
    assert_well_formed(&bars(&[(name, 1.0)], None));
}

#[test]
fn the_names_of_lines_stand_in_the_order_in_which_they_end() {
    let low = series("low", &[[1.0, 9.0], [10.0, 1.0]]);
    let high = series("high", &[[10.0, 8.0], [1.0, 1.0]]);
    let drawn = lines(Scale::Linear, vec![low, high]);
    assert!(drawn.find(">high</text>") < drawn.find(">low</text>"), "{drawn}");
}

#[test]
fn a_goal_is_within_the_chart_even_above_all_bars() {
    let goal = Goal { value: 30.0, name: "the goal" };
    let drawn = bars(&[("a", 1.0), ("b", 2.0)], Some(goal));
    assert_well_formed(&drawn);
    assert!(drawn.contains(">the goal</text>") && drawn.contains(">30</text>"), "{drawn}");
}

#[test]
fn a_bar_that_is_unsure_is_marked_and_no_other() {
    let unsure = Bar { is_unsure: true, ..bar("unsure", 2.0) };
    let drawn = drawn(vec![bar("sure", 1.0), unsure], None);
    assert_well_formed(&drawn);
    assert!(drawn.contains(">2 ?</text>") && drawn.contains(">1</text>"), "{drawn}");
    assert_eq!(drawn.matches("bar pale").count(), 1, "{drawn}");
}

#[test]
fn a_point_that_is_unsure_is_marked_and_no_other() {
    let mut unsure = series("line", &[[1.0, 1.0], [10.0, 2.0]]);
    unsure.dots[1].is_unsure = true;
    let drawn = lines(Scale::Linear, vec![unsure]);
    assert_well_formed(&drawn);
    assert_eq!(drawn.matches(">?</text>").count(), 1, "{drawn}");
}

#[test]
fn a_dozen_lines_all_look_different() {
    let all = (0..12).map(|n| series(&n.to_string(), &[[1.0, f64::from(n)]])).collect();
    let drawn = lines(Scale::Linear, all);
    // The colour and the shape of every mark.
    let marks = drawn.split("<path class=\"").skip(1).map(|mark| {
        let colour = mark.split('"').next();
        let shape = mark.split("d=\"").nth(1).and_then(|rest| rest.split('"').next());
        (colour, shape)
    });
    assert_eq!(marks.collect::<std::collections::BTreeSet<_>>().len(), 12, "{drawn}");
}

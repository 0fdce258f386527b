//! Small line charts as SVG, one above another over one axis.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const PANEL: f64 = 130.0;
const GAP: f64 = 42.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 50.0;
const COLOURS: [&str; 4] = ["#1f5fa8", "#c2571a", "#3a7d44", "#7a4b9d"];

/// A line and its name.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart with an axis of its own.
pub(crate) struct Panel {
    /// The measured quantity, with its unit.
    pub(crate) label: &'static str,
    pub(crate) series: Vec<Series>,
}

/// Returns a page of charts.
pub(crate) fn svg(title: &str, x_label: &str, panels: &[Panel]) -> String {
    let height = TOP + panels.len() as f64 * (PANEL + GAP) + 20.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    text(&mut out, (LEFT, 22.0), "start", 15, title);
    let x_max = greatest(panels, |p| p.0);
    for (nth, panel) in panels.iter().enumerate() {
        let top = TOP + nth as f64 * (PANEL + GAP);
        draw(&mut out, panel, top, x_max);
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    text(&mut out, (middle, height - 8.0), "middle", 12, x_label);
    out + "</svg>\n"
}

fn greatest(panels: &[Panel], of: fn(&(f64, f64)) -> f64) -> f64 {
    let series = panels.iter().flat_map(|p| &p.series);
    series.flat_map(|s| &s.points).map(of).fold(0.0, f64::max)
}

/// Returns the next 1, 2, 2.5, 4, 5 or 8 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 2.5, 4.0, 5.0, 8.0, 10.0].map(|s| s * power);
    let fits = steps.into_iter().find(|s| *s >= value);
    fits.unwrap_or(value)
}

fn draw(out: &mut String, panel: &Panel, top: f64, x_max: f64) {
    let (right, bottom) = (WIDTH - RIGHT, top + PANEL);
    let y_max = round_up(greatest(std::slice::from_ref(panel), |p| p.1));
    text(out, (LEFT, top - 6.0), "start", 12, panel.label);
    for nth in 0..=2 {
        let y = bottom - PANEL * f64::from(nth) / 2.0;
        line(out, (LEFT, y), (right, y));
        let label = number(y_max * f64::from(nth) / 2.0);
        text(out, (LEFT - 6.0, y + 4.0), "end", 11, &label);
    }
    for nth in 0..=4 {
        let x = LEFT + (right - LEFT) * f64::from(nth) / 4.0;
        let label = number(x_max * f64::from(nth) / 4.0);
        text(out, (x, bottom + 14.0), "middle", 11, &label);
    }
    for (nth, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[nth % COLOURS.len()];
        let place = |(x, y): &(f64, f64)| {
            let x = LEFT + (right - LEFT) * x / x_max;
            format!("{x:.1},{:.1}", bottom - PANEL * y / y_max)
        };
        let points: Vec<String> = series.points.iter().map(place).collect();
        let _infallible = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" points=\"{}\"/>",
            points.join(" ")
        );
        let y = top + 12.0 + 18.0 * nth as f64;
        let _infallible = writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"3\" fill=\"{colour}\"/>",
            right + 10.0,
            y - 5.0
        );
        text(out, (right + 28.0, y), "start", 11, series.name);
    }
}

fn line(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _infallible = writeln!(
        out,
        "<line x1=\"{x1}\" y1=\"{y1:.1}\" x2=\"{x2}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
    );
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, size: u32, text: &str) {
    let _infallible = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>"
    );
}

/// Returns a number as short as it can be.
fn number(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    rounded.to_string()
}

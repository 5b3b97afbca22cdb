//! How large buckets are, drawn: how likely each size is.

use std::error::Error as StdError;
use std::io;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use textplots::{Chart, Plot, Shape};

use super::report::{Report, whole};

/// Points that are drawn.
const POINTS: u32 = 400;
/// Dots of the drawing in a terminal: two beside each other and four above each other a character.
const DOTS: (u32, u32) = (120, 48);
/// Columns that the numbers beside the drawing take.
const FIGURES: usize = 12;
/// Pixels of the drawing in a file.
const PIXELS: (u32, u32) = (860, 420);

/// The drawing: sizes in MB, or in rows, and how likely they are, the likeliest as 1.
struct Curve {
    points: Vec<(f64, f64)>,
    unit: &'static str,
    most: f64,
    mean: f64,
    target: Option<f64>,
}

impl Curve {
    fn new(report: &Report) -> Self {
        let (scale, unit) = match report.target {
            Some(_) => (report.unit() as f64 / 1e6, "MB"),
            None => (1.0, "rows"),
        };
        let buckets = &report.buckets;
        let target = report.target.map(|target| target.bytes as f64 / 1e6);
        let most = (buckets.quantile(0.999_999) as f64 * scale).max(target.unwrap_or(0.0)) * 1.05;
        let likeliest = buckets.exactly(likeliest_rows(report)).max(f64::MIN_POSITIVE);
        let point = |index: u32| {
            let size = most * f64::from(index) / f64::from(POINTS);
            (size, buckets.exactly(whole(size / scale)) / likeliest)
        };
        Self {
            points: (0..=POINTS).map(point).collect(),
            unit,
            most,
            mean: buckets.mean() * scale,
            target,
        }
    }
}

/// The mode of the distribution.
fn likeliest_rows(report: &Report) -> u64 {
    let others = f64::from(report.buckets.samples().saturating_sub(1));
    whole(others / report.buckets.chance()).max(report.buckets.samples().into())
}

/// Drawn by characters; as wide as the terminal at most.
pub(super) fn text(report: &Report, width: Option<usize>) -> String {
    let curve = Curve::new(report);
    let room = width.map_or(DOTS.0, |width| (width.saturating_sub(FIGURES) * 2) as u32);
    let points: Vec<(f32, f32)> = curve.points.iter().map(|(x, y)| (*x as f32, *y as f32)).collect();
    let shape = Shape::Lines(&points);
    let mut chart =
        Chart::new_with_y_range(DOTS.0.min(room).max(32), DOTS.1, 0.0, curve.most as f32, 0.0, 1.0);
    let chart = chart.lineplot(&shape);
    chart.axis();
    chart.figures();
    let marks = match curve.target {
        Some(target) => format!("mean {:.2}, target {target:.2}", curve.mean),
        None => format!("mean {:.0}", curve.mean),
    };
    format!(
        "{chart}how likely buckets are of so many {}, the likeliest as 1 ({marks})\n",
        curve.unit
    )
}

/// Drawn as an SVG document.
pub(super) fn svg(report: &Report) -> io::Result<String> {
    let mut image = String::new();
    draw(report, &mut image).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(image)
}

fn draw(report: &Report, image: &mut String) -> Result<(), Box<dyn StdError>> {
    let curve = Curve::new(report);
    let root = SVGBackend::with_string(image, PIXELS).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .caption(
            format!("Buckets cut at {} samples", report.buckets.samples()),
            ("sans-serif", 20),
        )
        .x_label_area_size(44)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..curve.most, 0.0..1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .x_desc(curve.unit)
        .y_desc("how likely, the likeliest as 1")
        .draw()?;
    let blue = RGBColor(31, 95, 174);
    let area =
        AreaSeries::new(curve.points.iter().copied(), 0.0, blue.mix(0.15)).border_style(blue.stroke_width(2));
    chart.draw_series(area)?;
    let mut marks = vec![("mean", curve.mean, blue)];
    marks.extend(
        curve
            .target
            .map(|target| ("target", target, RGBColor(180, 40, 40))),
    );
    for (name, at, colour) in marks {
        chart.draw_series(LineSeries::new([(at, 0.0), (at, 1.05)], colour.stroke_width(1)))?;
        let label = format!(" {name} {at:.*} ", if curve.unit == "rows" { 0 } else { 2 });
        let side = if at > curve.most / 2.0 {
            HPos::Right
        } else {
            HPos::Left
        };
        let style = ("sans-serif", 14)
            .into_font()
            .color(&colour)
            .pos(Pos::new(side, VPos::Top));
        chart.draw_series([Text::new(label, (at, 1.09), style)])?;
    }
    root.present()?;
    Ok(())
}

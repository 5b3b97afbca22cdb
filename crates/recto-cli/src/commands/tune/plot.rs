//! Plot of the distribution of bucket sizes, as text or as an SVG image.

use std::error::Error as StdError;
use std::io;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use textplots::{Chart, LabelBuilder, LabelFormat, Plot, Shape};

use super::report::{Report, whole};

/// Number of points at which the curve of the plot is computed.
const POINTS: u32 = 400;
/// Maximum width and height of the text plot, in Braille dots. A character is two dots wide and
/// four dots high.
const DOTS: (u32, u32) = (120, 48);
/// Minimum width of the text plot, in Braille dots.
const MIN_DOTS: u32 = 32;
/// Number of columns to the right of the text plot, for its numbers.
const FIGURES: usize = 12;
/// Distance, in dots, between the dots of a vertical line that marks a size in the text plot.
const GAP_OF_MARKS: u32 = 4;
/// Width and height of the SVG image, in pixels.
const PIXELS: (u32, u32) = (860, 420);
/// Number of drawing units per pixel of the SVG image. It makes lines finer, because the drawing
/// library uses whole units.
const FINE: u32 = 4;

/// Colors of the SVG image. They are readable on light and on dark pages, because the image has no
/// background.
const GREY: RGBColor = RGBColor(124, 128, 134);
const BLUE: RGBColor = RGBColor(58, 134, 214);
const RED: RGBColor = RGBColor(222, 82, 76);

/// Curve of the distribution of bucket sizes. A point is a size, in bytes or rows, and its
/// probability divided by that of the most probable size.
struct Curve {
    points: Vec<(f64, f64)>,
    most: f64,
    marks: Vec<Mark>,
}

/// Size that the plot marks with a vertical line.
struct Mark {
    name: &'static str,
    at: f64,
    colour: RGBColor,
}

impl Curve {
    fn new(report: &Report) -> Self {
        let buckets = &report.buckets;
        let unit = report.unit() as f64;
        let target = report.target.map(|target| target.bytes as f64);
        let most = (buckets.quantile(0.999_999) as f64 * unit).max(target.unwrap_or(0.0)) * 1.05;
        let likeliest = buckets.exactly(likeliest_rows(report)).max(f64::MIN_POSITIVE);
        let point = |index: u32| {
            let size = most * f64::from(index) / f64::from(POINTS);
            (size, buckets.exactly(whole(size / unit)) / likeliest)
        };
        let mark = |name, at, colour| Mark { name, at, colour };
        let mut marks = vec![mark("mean", buckets.mean() * unit, BLUE)];
        marks.extend(target.map(|target| mark("target", target, RED)));
        Self {
            points: (0..=POINTS).map(point).collect(),
            most,
            marks,
        }
    }
}

/// Returns the most probable number of rows in a bucket (the mode of the distribution).
fn likeliest_rows(report: &Report) -> u64 {
    let others = f64::from(report.buckets.samples().saturating_sub(1));
    whole(others / report.buckets.chance()).max(report.buckets.samples().into())
}

/// Returns the plot of bucket sizes as text, at most as wide as the terminal.
pub(super) fn text(report: &Report, width: Option<usize>) -> String {
    let curve = Curve::new(report);
    let room = width.map_or(DOTS.0, |width| (width.saturating_sub(FIGURES) * 2) as u32);
    let points: Vec<(f32, f32)> = curve.points.iter().map(|(x, y)| (*x as f32, *y as f32)).collect();
    let marked = |mark: &Mark| {
        let dot = |dot: u32| (mark.at as f32, dot as f32 / DOTS.1 as f32);
        (0..DOTS.1)
            .step_by(GAP_OF_MARKS as usize)
            .map(dot)
            .collect::<Vec<_>>()
    };
    let (line, marks) = (
        Shape::Lines(&points),
        curve.marks.iter().flat_map(marked).collect::<Vec<_>>(),
    );
    let marks = Shape::Points(&marks);
    let most = report.shown_size(curve.most);
    let label = move |x: f32| if x > 0.0 { most.clone() } else { "0".to_owned() };
    let mut chart = Chart::new_with_y_range(
        DOTS.0.min(room).max(MIN_DOTS),
        DOTS.1,
        0.0,
        curve.most as f32,
        0.0,
        1.0,
    );
    let chart = chart
        .x_label_format(LabelFormat::Custom(Box::new(label)))
        .lineplot(&line)
        .lineplot(&marks);
    chart.axis();
    chart.figures();
    let names: Vec<String> = curve.marks.iter().map(|mark| label_of(report, mark)).collect();
    format!(
        "{chart}relative probability of each size ({})
",
        names.join(", ")
    )
}

fn label_of(report: &Report, mark: &Mark) -> String {
    format!("{} {}", mark.name, report.shown_size(mark.at))
}

/// Returns the plot of bucket sizes as an SVG document.
pub(super) fn svg(report: &Report) -> io::Result<String> {
    let mut image = String::new();
    draw(report, &mut image).map_err(|error| io::Error::other(error.to_string()))?;
    let size = |scale: u32| format!("width=\"{}\" height=\"{}\"", PIXELS.0 * scale, PIXELS.1 * scale);
    Ok(image.replacen(&size(FINE), &size(1), 1))
}

/// Converts pixels to drawing units.
fn fine(pixels: u32) -> u32 {
    pixels * FINE
}

fn draw(report: &Report, image: &mut String) -> Result<(), Box<dyn StdError>> {
    let curve = Curve::new(report);
    let size = (fine(PIXELS.0), fine(PIXELS.1));
    let root = SVGBackend::with_string(image, size).into_drawing_area();
    let words = |pixels: u32| ("sans-serif", fine(pixels)).into_font().color(&GREY);
    let mut chart = ChartBuilder::on(&root)
        .margin(fine(16))
        .caption(format!("Buckets split at {}", report.shown_samples()), words(22))
        .x_label_area_size(fine(44))
        .y_label_area_size(fine(56))
        .build_cartesian_2d(0.0..curve.most, 0.0..1.12)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(0)
        .bold_line_style(GREY.mix(0.3).stroke_width(fine(1)))
        .axis_style(GREY.stroke_width(fine(1)))
        .set_all_tick_mark_size(fine(5))
        .label_style(words(14))
        .axis_desc_style(words(14))
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&|x| report.shown_size(*x))
        .x_desc("size of a bucket")
        .y_desc("relative probability")
        .draw()?;
    let area = AreaSeries::new(curve.points.iter().copied(), 0.0, BLUE.mix(0.18));
    chart.draw_series(area.border_style(BLUE.stroke_width(fine(2))))?;
    for mark in &curve.marks {
        let line = [(mark.at, 0.0), (mark.at, 1.06)];
        chart.draw_series(LineSeries::new(line, mark.colour.stroke_width(fine(1))))?;
        let side = if mark.at > curve.most / 2.0 {
            HPos::Right
        } else {
            HPos::Left
        };
        let style = words(15).color(&mark.colour).pos(Pos::new(side, VPos::Top));
        let label = format!(" {} ", label_of(report, mark));
        chart.draw_series([Text::new(label, (mark.at, 1.11), style)])?;
    }
    root.present()?;
    Ok(())
}

//! Charts of a queue's recent history, as lines in SVG that the server draws.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::history::{Flow, History, Step};
use super::words::per_second;

/// Width and height of a chart. The unit is arbitrary, because style sheets scale the chart.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 28.0;
/// Space above and below the line of a chart, so that the line is drawn in its whole width.
const MARGIN: f64 = 1.5;

/// Returns the current rate of a flow, and a chart of its recent rates. All charts of a queue have
/// equal scales, so that people can compare them.
pub(super) fn rate(history: &History, flow: Flow) -> Markup {
    let (Some(rate), Some(seconds)) = (history.rate(flow), history.rate_seconds()) else {
        return html! { span.dim title="The rate is known after the second refresh" { "–" } };
    };
    let top = history.highest_rate();
    let words = format!(
        "{} {} per second in the last {seconds:.0} s; the scale ends at {}",
        flow.name(),
        per_second(rate),
        per_second(top)
    );
    html! { span.rate { (per_second(rate)) } (line(&history.rates(flow), top, &words)) }
}

/// Returns a chart of the number of messages in the queue.
pub(super) fn depth(history: &History) -> Markup {
    let steps = history.depths();
    let top = steps.iter().map(|step| step.value).fold(0.0, f64::max);
    line(
        &steps,
        top,
        &format!("Messages in the last two minutes; the scale ends at {top:.0}"),
    )
}

/// Draws values from 0 to `top` as a line. `words` describes the chart for people who cannot see
/// it.
fn line(steps: &[Step], top: f64, words: &str) -> Markup {
    let points = points(steps, top);
    html! {
        svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(words) {
            title { (words) }
            line x1="0" x2=(WIDTH) y1=(HEIGHT - MARGIN) y2=(HEIGHT - MARGIN) {}
            @if let (Some(first), Some(last)) = (steps.first(), steps.last()) {
                polygon.area points=(format!("{:.1},{HEIGHT} {points} {:.1},{HEIGHT}", first.from * WIDTH, last.to * WIDTH)) {}
                polyline points=(points) {}
            }
        }
    }
}

fn points(steps: &[Step], top: f64) -> String {
    let height = |value: f64| {
        let part = if top > 0.0 {
            (value / top).clamp(0.0, 1.0)
        } else {
            0.0
        };
        HEIGHT - MARGIN - part * (HEIGHT - 2.0 * MARGIN)
    };
    let mut points = String::new();
    for step in steps {
        let height = height(step.value);
        for place in [step.from, step.to] {
            let separator = if points.is_empty() { "" } else { " " };
            // Writing to a `String` cannot fail.
            let _ = write!(points, "{separator}{:.1},{height:.1}", place * WIDTH);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_left_to_right_and_from_none_to_the_most() {
        let steps = [(0.5, 0.75, 0.0), (0.75, 1.0, 8.0)].map(|(from, to, value)| Step { from, to, value });
        assert_eq!(points(&steps, 8.0), "60.0,26.5 90.0,26.5 90.0,1.5 120.0,1.5");
        assert_eq!(points(&steps[..1], 0.0), "60.0,26.5 90.0,26.5");
        let nothing = line(&[], 0.0, "a \"b\"").into_string();
        assert!(
            nothing.contains("<line ") && nothing.contains("a &quot;b&quot;"),
            "{nothing}"
        );
    }
}

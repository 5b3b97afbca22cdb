//! Numbers and times of queues as text for people.

use std::time::Duration;

use maud::{Markup, html};
use recto::session::QueueStatus;

use super::super::text::{duration, grouped};

const MICROS_PER_SECOND: u32 = 1_000_000;

/// Returns the number of messages of a queue, with `≤` before an upper bound.
pub(super) fn depth(status: &QueueStatus) -> Markup {
    html! {
        @if let Some(damage) = &status.damage { span.bad title=(damage) { "damaged" } }
        @else if status.exact { (grouped(status.messages)) }
        @else { span title="This number includes acknowledged messages until they are cleared." { "≤ " (grouped(status.messages)) } }
    }
}

/// Returns a mark if the queue is paused; otherwise nothing.
pub(super) fn paused(status: &QueueStatus) -> Markup {
    html! {
        @if status.is_paused() {
            " " span.bad title="The queue accepts messages, but delivers none." { "paused" }
        }
    }
}

/// Returns how long the oldest message has been due, or a dash if none is due.
pub(super) fn age(status: &QueueStatus) -> Markup {
    let age = status
        .age_seconds
        .map(|age| Duration::try_from_secs_f64(age).unwrap_or_default());
    html! {
        @match age {
            Some(age) => (recto::text::duration(age)),
            None => span.dim { "–" },
        }
    }
}

/// Formats a rate per second. Small rates have decimals.
pub(super) fn per_second(rate: f64) -> String {
    if rate == 0.0 {
        "0".to_owned()
    } else if rate < 0.1 {
        format!("{rate:.2}")
    } else if rate < 100.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.0}")
    }
}

/// Formats the time between two points in time, in microseconds since 1970.
pub(super) fn between(earlier_micros: i64, later_micros: i64) -> String {
    duration(u64::try_from(later_micros.saturating_sub(earlier_micros)).unwrap_or(0))
}

/// Formats the value of a queue's option, which is in seconds.
pub(super) fn seconds(seconds: u32) -> String {
    duration(u64::from(seconds) * u64::from(MICROS_PER_SECOND))
}

/// Converts a point in time from the API's format to microseconds since 1970.
pub(super) fn micros(time: &str) -> Option<i64> {
    Some(time.parse::<jiff::Timestamp>().ok()?.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_as_many_digits_as_are_read() {
        for (rate, said) in [(0.0, "0"), (0.02, "0.02"), (12.34, "12.3"), (1234.5, "1234")] {
            assert_eq!(per_second(rate), said);
        }
    }

    #[test]
    fn times_are_apart() {
        let micros = |time| micros(time).unwrap_or_default();
        let (earlier, later) = (
            micros("2026-01-01T00:00:00.000Z"),
            micros("2026-01-01T00:02:05.000Z"),
        );
        assert_eq!(between(earlier, later), "2 min 05 s");
        assert_eq!(between(later, earlier), "0 µs");
    }
}

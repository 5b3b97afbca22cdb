//! Progress of long operations: a bar on a terminal, and otherwise a line every few seconds.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use recto::Environment;
use recto::session::{CopyProgress, LoadProgress, RebalanceProgress, StoreProgress, ViewProgress};

use crate::console::{Console, Tone, painted};
use crate::table::cut;
use crate::terminal;
use crate::text::{counted, duration, grouped, printable, rows};

/// Interval between two lines of progress, if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum time between two updates of the progress bar.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Width of the progress bar, in characters.
const BAR_WIDTH: u64 = 28;
/// Width in columns that is assumed for a terminal without a known width.
const DEFAULT_WIDTH: usize = 80;

/// Form of the progress output on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bar,
    Lines,
    Silent,
}

/// Progress output of one operation, on standard error.
#[derive(Debug)]
pub(crate) struct Meter {
    environment: Environment,
    start_nanos: u64,
    mode: Mode,
    has_colour: bool,
    width: usize,
    /// Time of the last output since the start; `None` before the first output.
    last_shown: Mutex<Option<Duration>>,
    /// Name of a copy's current step, and its start time, measured from the start of the copy.
    step: Mutex<(String, Duration)>,
}

impl Meter {
    /// Starts the progress output of an operation that begins now. `quiet` hides the output.
    pub(crate) fn start(console: &Console, quiet: bool) -> Self {
        let mode = match (quiet, console.err_is_terminal()) {
            (true, _) => Mode::Silent,
            (false, true) => Mode::Bar,
            (false, false) => Mode::Lines,
        };
        let environment = Environment::system();
        let meter = Self {
            start_nanos: environment.monotonic_nanos(),
            environment,
            mode,
            has_colour: console.err_has_colour(),
            width: match mode {
                Mode::Bar => terminal::size().map_or(DEFAULT_WIDTH, |(width, _)| width.into()),
                Mode::Lines | Mode::Silent => DEFAULT_WIDTH,
            },
            last_shown: Mutex::default(),
            step: Mutex::default(),
        };
        if mode == Mode::Bar {
            meter.draw(0, None, "");
        }
        meter
    }

    /// Returns the time since the operation started.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(
            self.environment
                .monotonic_nanos()
                .saturating_sub(self.start_nanos),
        )
    }

    pub(crate) fn load(&self, progress: LoadProgress) {
        self.show(progress.bytes_consumed, Some(progress.bytes_total), &|elapsed| {
            load_text(&progress, elapsed)
        });
    }

    /// Updates the number of bytes read from standard input.
    pub(crate) fn received(&self, bytes: u64) {
        self.show(bytes, None, &|_| format!("{} bytes read", grouped(bytes)));
    }

    /// Updates the progress of an operation on a whole store, such as a backup.
    pub(crate) fn store(&self, progress: StoreProgress) {
        self.show(progress.done, progress.total, &|elapsed| match progress.total {
            Some(total) => left_text(progress.done, total, elapsed).unwrap_or_default(),
            None => grouped(progress.done),
        });
    }

    /// Updates the progress of an operation on a view, such as filling it.
    pub(crate) fn view(&self, progress: &ViewProgress) {
        self.show(progress.rows, progress.total, &|elapsed| {
            view_text(progress, elapsed)
        });
    }

    /// Updates the progress of a copy of collections.
    pub(crate) fn copy(&self, progress: &CopyProgress) {
        let begun = {
            let name = format!("{}: {}", progress.collection, progress.step);
            let mut step = self
                .step
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if step.0 != name {
                *step = (name, self.elapsed());
            }
            step.1
        };
        self.show(progress.done, Some(progress.total), &|elapsed| {
            copy_text(progress, elapsed.saturating_sub(begun))
        });
    }

    /// Updates the number of messages that were sent.
    pub(crate) fn messages(&self, sent: u64) {
        self.show(sent, None, &|elapsed| messages_text(sent, elapsed));
    }

    /// Updates the progress of a recovery: the number of its passes, and the result of the last
    /// pass as text.
    pub(crate) fn recover(&self, looks: u64, text: &str) {
        self.show(looks, None, &|_| text.to_owned());
    }

    /// Updates the progress of splitting buckets.
    pub(crate) fn rebalance(&self, progress: &RebalanceProgress) {
        let made = counted(progress.created, "bucket created", "buckets created");
        let looked = counted(progress.partitions, "partition", "partitions");
        self.show(progress.partitions, None, &|_| format!("{looked} · {made}"));
    }

    /// Removes the progress bar from the terminal.
    pub(crate) fn finish(&self) {
        if self.mode == Mode::Bar {
            // Ignore an error: a failed output of progress must not stop the operation.
            let _ = write!(std::io::stderr(), "{CLEAR_LINE}");
        }
    }

    fn show(&self, done: u64, total: Option<u64>, text: &dyn Fn(Duration) -> String) {
        let interval = match self.mode {
            Mode::Silent => return,
            Mode::Bar => DRAW_INTERVAL,
            Mode::Lines => LINE_INTERVAL,
        };
        let elapsed = self.elapsed();
        // Ignore the panic of another thread, because the time is still valid.
        let mut last = self
            .last_shown
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if elapsed.saturating_sub(last.unwrap_or_default()) < interval {
            return;
        }
        *last = Some(elapsed);
        match self.mode {
            Mode::Bar => self.draw(done, total, &text(elapsed)),
            // Ignore an error: a failed output of progress must not stop the operation.
            _ => {
                let _ = writeln!(std::io::stderr(), "{}", line_text(done, total, &text(elapsed)));
            }
        }
    }

    fn draw(&self, done: u64, total: Option<u64>, text: &str) {
        let bar = bar_text(done, total, text, self.width, self.has_colour);
        // Ignore an error: a failed output of progress must not stop the operation.
        let _ = write!(std::io::stderr(), "{CLEAR_LINE}{bar}");
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Control sequence that moves the cursor to the start of the line and clears the line: CR and EL of ECMA-48.
const CLEAR_LINE: &str = "\r\u{1b}[K";

/// Returns the progress bar with its text, such as `━━━━━━━━──────  43%  120,000 rows`, at most `width`
/// columns wide.
fn bar_text(done: u64, total: Option<u64>, text: &str, width: usize, has_colour: bool) -> String {
    let (done, total) = match total {
        Some(total) if total > 0 => (u128::from(done.min(total)), u128::from(total)),
        _ => (0, 1),
    };
    let filled = usize::try_from(done * u128::from(BAR_WIDTH) / total).unwrap_or(0);
    let left = usize::try_from(BAR_WIDTH).unwrap_or(0) - filled;
    let (filled, left) = ("━".repeat(filled), "─".repeat(left));
    // If `cut` shortened the bar itself, show the line without colors.
    let plain = format!("{filled}{left} {:>3}%  {text}", done * 100 / total);
    let plain = cut(&plain, width.saturating_sub(1));
    match plain.strip_prefix(&format!("{filled}{left}")) {
        Some(rest) => {
            painted(has_colour, Tone::Good, &filled) + &painted(has_colour, Tone::Dim, &left) + rest
        }
        None => plain,
    }
}

fn line_text(done: u64, total: Option<u64>, text: &str) -> String {
    match total {
        Some(total) if total > 0 => format!(
            "{}%  {text}",
            u128::from(done.min(total)) * 100 / u128::from(total)
        ),
        _ => text.to_owned(),
    }
}

/// Returns the progress of a load, such as `120,000 rows · 210,000 stored/s · 3 rejected · 12 s left`.
fn load_text(progress: &LoadProgress, elapsed: Duration) -> String {
    let mut parts = vec![rows(progress.rows_read)];
    parts.extend(per_second(progress.rows_stored, elapsed).map(|rate| format!("{} stored/s", grouped(rate))));
    if progress.rows_rejected > 0 {
        parts.push(counted(progress.rows_rejected, "rejected", "rejected"));
    }
    parts.extend(left_text(progress.bytes_consumed, progress.bytes_total, elapsed));
    parts.join(" · ")
}

/// Returns the progress of sending, such as `120,000 messages · 60,000/s`.
fn messages_text(sent: u64, elapsed: Duration) -> String {
    let mut parts = vec![counted(sent, "message", "messages")];
    parts.extend(per_second(sent, elapsed).map(|rate| format!("{}/s", grouped(rate))));
    parts.join(" · ")
}

/// Returns the progress of a view, such as `flights.by_tail: filling · 120,000 rows · 60,000 rows/s`.
fn view_text(progress: &ViewProgress, elapsed: Duration) -> String {
    let view = format!("{}.{}", progress.collection, progress.view);
    let mut parts = vec![format!("{}: {}", printable(&view), printable(&progress.step))];
    if progress.rows > 0 {
        parts.push(rows(progress.rows));
    }
    parts.extend(per_second(progress.rows, elapsed).map(|rate| format!("{} rows/s", grouped(rate))));
    parts.join(" · ")
}

/// Returns the progress of a copy, such as `flights: copying · 120,000 rows · 60,000 rows/s · 12 s left`.
fn copy_text(progress: &CopyProgress, elapsed: Duration) -> String {
    if progress.collection.is_empty() {
        // A step without a collection applies to the whole store and reads no rows. Show only the
        // name of the step.
        return printable(&progress.step);
    }
    let mut parts = vec![
        format!(
            "{}: {}",
            printable(&progress.collection),
            printable(&progress.step)
        ),
        rows(progress.rows),
    ];
    let read = progress.rows.saturating_sub(progress.rows_resumed);
    parts.extend(per_second(read, elapsed).map(|rate| format!("{} rows/s", grouped(rate))));
    // Show no remaining time for a resumed copy. Rows of the earlier run took no time in this run,
    // so the estimate would be wrong.
    if progress.rows_resumed == 0 {
        parts.extend(left_text(progress.done, progress.total, elapsed));
    }
    parts.join(" · ")
}

/// Formats the remaining time, estimated from the speed so far; `None` if no estimate is possible.
fn left_text(done: u64, total: u64, elapsed: Duration) -> Option<String> {
    if done == 0 || total < done || elapsed.is_zero() {
        return None;
    }
    let seconds = elapsed.as_secs_f64() * (total - done) as f64 / done as f64;
    let left = Duration::try_from_secs_f64(seconds.ceil()).ok()?;
    Some(if left.as_secs() < 60 {
        format!("{} s left", left.as_secs())
    } else {
        format!("{} left", duration(left))
    })
}

/// Returns `count` per second, rounded down; `None` if `count` or the elapsed time is 0.
pub(crate) fn per_second(count: u64, elapsed: Duration) -> Option<u64> {
    let seconds = elapsed.as_secs_f64();
    #[allow(clippy::cast_sign_loss)] // both are positive
    (count > 0 && seconds > 0.0).then(|| (count as f64 / seconds) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_tells_rows_rate_rejects_and_what_is_left() {
        let progress = LoadProgress {
            rows_read: 120_000,
            rows_stored: 478_000,
            rows_rejected: 2_000,
            bytes_consumed: 3_000_000,
            bytes_total: 9_000_000,
        };
        assert_eq!(
            load_text(&progress, Duration::from_secs(2)),
            "120,000 rows · 239,000 stored/s · 2,000 rejected · 4 s left"
        );
        assert_eq!(line_text(3, Some(9), "x"), "33%  x");
        assert_eq!(load_text(&LoadProgress::default(), Duration::ZERO), "0 rows");
    }

    #[test]
    fn a_view_tells_its_name_and_what_is_done() {
        let progress = ViewProgress {
            collection: "flights".into(),
            view: "by_tail".into(),
            step: "filling".into(),
            rows: 120_000,
            total: None,
            resume: None,
        };
        let text = view_text(&progress, Duration::from_secs(2));
        assert_eq!(text, "flights.by_tail: filling · 120,000 rows · 60,000 rows/s");
        let waiting = ViewProgress {
            rows: 0,
            step: "waiting".into(),
            ..progress
        };
        assert_eq!(view_text(&waiting, Duration::ZERO), "flights.by_tail: waiting");
    }

    #[test]
    fn a_copy_tells_what_is_done_at_which_rate_and_what_is_left() {
        let progress = CopyProgress {
            collection: "flights".into(),
            step: "copying".into(),
            rows: 120_000,
            rows_resumed: 0,
            done: 8,
            total: 32,
        };
        let text = copy_text(&progress, Duration::from_secs(2));
        assert_eq!(text, "flights: copying · 120,000 rows · 60,000 rows/s · 6 s left");
        let resumed = CopyProgress {
            rows_resumed: 100_000,
            ..progress
        };
        let text = copy_text(&resumed, Duration::from_secs(2));
        assert_eq!(text, "flights: copying · 120,000 rows · 10,000 rows/s");
        let of_store = CopyProgress {
            step: "recovering".into(),
            ..CopyProgress::default()
        };
        assert_eq!(copy_text(&of_store, Duration::ZERO), "recovering");
    }

    #[test]
    fn omits_the_remaining_time_if_it_is_unknown() {
        assert_eq!(left_text(0, 9, Duration::from_secs(1)), None);
        assert_eq!(left_text(9, 8, Duration::from_secs(1)), None);
        assert_eq!(
            left_text(9, 9, Duration::from_secs(1)).as_deref(),
            Some("0 s left")
        );
        assert_eq!(
            left_text(1, 3_601, Duration::from_secs(2)).as_deref(),
            Some("2 h 00 min left")
        );
        assert_eq!(left_text(1, u64::MAX, Duration::from_secs(u64::MAX / 2)), None);
        assert_eq!(line_text(9, Some(0), "x"), "x");
    }

    #[test]
    fn the_bar_fits_the_terminal() {
        let bar = bar_text(1, Some(2), "120,000 rows", 80, false);
        assert_eq!(bar, "━━━━━━━━━━━━━━──────────────  50%  120,000 rows");
        assert_eq!(
            bar_text(1, Some(2), "120,000 rows", 41, false),
            "━━━━━━━━━━━━━━──────────────  50%  120,…"
        );
        assert_eq!(bar_text(9, Some(2), "", 9, true), "━━━━━━━…");
        let painted = bar_text(u64::MAX, Some(u64::MAX), "x", 80, true);
        assert_eq!(painted, format!("\u{1b}[32m{}\u{1b}[0m 100%  x", "━".repeat(28)));
        assert!(bar_text(5, None, "5", 80, false).ends_with("   0%  5"));
    }
}

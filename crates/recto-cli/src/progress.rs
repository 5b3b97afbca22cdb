//! How far long work is: a bar on a terminal, a line every few seconds elsewhere.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use recto::session::{CopyProgress, LoadProgress, MendProgress, StoreProgress, ViewProgress};

use crate::console::Console;
use crate::text::{counted, duration, grouped, printable, rows};

/// How often a line is printed where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// How often the bar is drawn, per second.
const DRAWS_PER_SECOND: u8 = 10;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bar,
    Lines,
    Silent,
}

/// Shows how far long work is, on standard error.
#[derive(Debug)]
pub(crate) struct Meter {
    bar: ProgressBar,
    mode: Mode,
    /// When the last line was printed, since the beginning.
    last_line: Mutex<Duration>,
    /// The step of a copy that is shown, and when that began.
    step: Mutex<(String, Duration)>,
}

impl Meter {
    /// A meter that starts now.
    pub(crate) fn start(console: &Console, quiet: bool) -> Self {
        let mode = match (quiet, console.err_is_terminal()) {
            (true, _) => Mode::Silent,
            (false, true) => Mode::Bar,
            (false, false) => Mode::Lines,
        };
        let target = match mode {
            Mode::Bar => ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND),
            Mode::Lines | Mode::Silent => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:28.green/dim} {percent:>3}%  {msg}");
        bar.set_style(
            style
                .expect("the template is right, as a test says")
                .progress_chars("━━─"),
        );
        Self {
            bar,
            mode,
            last_line: Mutex::new(Duration::ZERO),
            step: Mutex::default(),
        }
    }

    /// The time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.bar.elapsed()
    }

    /// A load is this far.
    pub(crate) fn load(&self, progress: LoadProgress) {
        self.show(progress.bytes_consumed, Some(progress.bytes_total), &|elapsed| {
            load_text(&progress, elapsed)
        });
    }

    /// Work over a whole store is this far.
    pub(crate) fn store(&self, progress: StoreProgress) {
        self.show(progress.done, progress.total, &|elapsed| match progress.total {
            Some(total) => left_text(progress.done, total, elapsed).unwrap_or_default(),
            None => grouped(progress.done),
        });
    }

    /// Work on a view is this far.
    pub(crate) fn view(&self, progress: &ViewProgress) {
        self.show(progress.rows, progress.total, &|elapsed| {
            view_text(progress, elapsed)
        });
    }

    /// A copy is this far.
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

    /// So many messages were sent.
    pub(crate) fn messages(&self, sent: u64) {
        self.show(sent, None, &|elapsed| messages_text(sent, elapsed));
    }

    /// So often it was looked after what the dead left.
    pub(crate) fn sweep(&self, looks: u64, text: &str) {
        self.show(looks, None, &|_| text.to_owned());
    }

    /// So far buckets are mended.
    pub(crate) fn mending(&self, progress: &MendProgress) {
        let made = counted(progress.made, "bucket made", "buckets made");
        let looked = counted(progress.partitions, "partition", "partitions");
        self.show(progress.partitions, None, &|_| format!("{looked} · {made}"));
    }

    /// Takes the bar off the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn show(&self, done: u64, total: Option<u64>, text: &dyn Fn(Duration) -> String) {
        let elapsed = self.elapsed();
        match self.mode {
            Mode::Silent => {}
            Mode::Bar => {
                self.bar.set_length(total.unwrap_or(done));
                self.bar.set_position(done);
                self.bar.set_message(text(elapsed));
            }
            Mode::Lines => {
                // A thread that panicked while it held the time left a time behind all the same.
                let mut last = self
                    .last_line
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                if elapsed.saturating_sub(*last) >= LINE_INTERVAL {
                    *last = elapsed;
                    // Progress that cannot be shown is not a reason to stop the work.
                    let _ = writeln!(std::io::stderr(), "{}", line_text(done, total, &text(elapsed)));
                }
            }
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
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

/// `120,000 rows · 210,000 stored rows/s · 3 rejected · 12 s left`.
fn load_text(progress: &LoadProgress, elapsed: Duration) -> String {
    let mut parts = vec![rows(progress.rows_read)];
    parts.extend(per_second(progress.rows_stored, elapsed).map(|rate| format!("{} stored/s", grouped(rate))));
    if progress.rows_rejected > 0 {
        parts.push(counted(progress.rows_rejected, "rejected", "rejected"));
    }
    parts.extend(left_text(progress.bytes_consumed, progress.bytes_total, elapsed));
    parts.join(" · ")
}

/// `120,000 messages · 60,000/s`.
fn messages_text(sent: u64, elapsed: Duration) -> String {
    let mut parts = vec![counted(sent, "message", "messages")];
    parts.extend(per_second(sent, elapsed).map(|rate| format!("{}/s", grouped(rate))));
    parts.join(" · ")
}

/// `flights.by_tail: filling · 120,000 rows · 60,000 rows/s`.
fn view_text(progress: &ViewProgress, elapsed: Duration) -> String {
    let view = format!("{}.{}", progress.collection, progress.view);
    let mut parts = vec![format!("{}: {}", printable(&view), printable(&progress.step))];
    if progress.rows > 0 {
        parts.push(rows(progress.rows));
    }
    parts.extend(per_second(progress.rows, elapsed).map(|rate| format!("{} rows/s", grouped(rate))));
    parts.join(" · ")
}

/// `flights: copying · 120,000 rows · 60,000 rows/s · 12 s left`.
fn copy_text(progress: &CopyProgress, elapsed: Duration) -> String {
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
    // What an earlier run did took no time of this one.
    if progress.rows_resumed == 0 {
        parts.extend(left_text(progress.done, progress.total, elapsed));
    }
    parts.join(" · ")
}

/// The time that is left, if it goes on as it went so far.
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

/// How many per second; none before anything can be said.
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
    }

    #[test]
    fn what_is_left_is_never_nonsense() {
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
    fn the_template_is_right() {
        let (console, _) = Console::captured(80);
        let meter = Meter::start(&console, false);
        meter.load(LoadProgress {
            bytes_consumed: 1,
            bytes_total: 2,
            ..LoadProgress::default()
        });
        meter.store(StoreProgress { done: 1, total: None });
        meter.finish();
    }
}

//! Rate limit for work on whole tables, which leaves resources to other work.

use std::time::Duration;

use recto_model::Environment;

/// Rate limit in rows per second, over the whole time since its creation.
#[derive(Debug)]
pub(crate) struct Pace {
    rows_per_second: Option<u32>,
    began_nanos: u64,
    rows: u64,
}

impl Pace {
    /// Creates a limit of `rows_per_second`. `None` and 0 mean no limit.
    pub(crate) fn new(rows_per_second: Option<u32>, environment: &Environment) -> Self {
        Self {
            rows_per_second: rows_per_second.filter(|rows| *rows > 0),
            began_nanos: environment.monotonic_nanos(),
            rows: 0,
        }
    }

    /// Returns the maximum number of rows of one read, at most `most`. With a rate limit, one read
    /// has at most the rows of one second.
    pub(crate) fn step_rows(&self, most: u32) -> u32 {
        self.rows_per_second.map_or(most, |rows| rows.clamp(1, most))
    }

    /// Counts `rows` more rows. Returns the time to wait before the next read, so that the rate
    /// stays below the limit.
    pub(crate) fn after(&mut self, rows: u64, environment: &Environment) -> Duration {
        self.rows += rows;
        let Some(per_second) = self.rows_per_second else {
            return Duration::ZERO;
        };
        let due_nanos = u128::from(self.rows) * 1_000_000_000 / u128::from(per_second);
        let due = self
            .began_nanos
            .saturating_add(u64::try_from(due_nanos).unwrap_or(u64::MAX));
        Duration::from_nanos(due.saturating_sub(environment.monotonic_nanos()))
    }
}

//! Deadlines of reads, and the time by which rows have expired.

use std::time::Duration;

use recto_model::Environment;
use recto_store::StoreError;

use crate::error::timeout;
use crate::row::StoredRow;

/// Deadline of a read. The clock is read only after each `ROWS_PER_LOOK` rows, so that a usual page never
/// reads it.
pub(crate) struct Deadline<'a> {
    environment: &'a Environment,
    timeout: Duration,
    end_nanos: Option<u64>,
    visited: u32,
}

/// Number of visited rows between two readings of the clock. Visiting them takes some tens of microseconds.
const ROWS_PER_LOOK: u32 = 256;

impl<'a> Deadline<'a> {
    pub(crate) fn new(environment: &'a Environment, timeout_after: Duration) -> Result<Self, StoreError> {
        if timeout_after.is_zero() {
            return Err(timeout("a read"));
        }
        Ok(Self {
            environment,
            timeout: timeout_after,
            end_nanos: None,
            visited: 0,
        })
    }

    /// Counts a visited row. Reads the clock after each `ROWS_PER_LOOK` rows, and returns an error if the
    /// deadline has passed.
    #[inline]
    pub(crate) fn visit(&mut self) -> Result<(), StoreError> {
        self.visited += 1;
        if self.visited < ROWS_PER_LOOK {
            return Ok(());
        }
        self.look()
    }

    #[cold]
    fn look(&mut self) -> Result<(), StoreError> {
        self.visited = 0;
        let now = self.environment.monotonic_nanos();
        let nanos = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        let end = *self.end_nanos.get_or_insert(now.saturating_add(nanos));
        if now > end { Err(timeout("a read")) } else { Ok(()) }
    }
}

/// Current time in seconds since 1970. A read uses one value for all rows. The clock is read only if a row
/// can expire.
pub(crate) struct Now<'a> {
    environment: &'a Environment,
    seconds: Option<u32>,
}

impl<'a> Now<'a> {
    pub(crate) fn new(environment: &'a Environment) -> Self {
        Self {
            environment,
            seconds: None,
        }
    }

    pub(crate) fn seconds(&mut self) -> u32 {
        let environment = self.environment;
        *self.seconds.get_or_insert_with(|| now_seconds(environment))
    }

    /// Returns the current second if `row` can expire. For other rows the time does not matter, and the
    /// result is any number.
    #[inline]
    pub(crate) fn for_row(&mut self, row: &StoredRow<'_>) -> u32 {
        if row.may_end() { self.seconds() } else { 0 }
    }
}

/// Returns the current time in whole seconds since 1970.
pub(crate) fn now_seconds(environment: &Environment) -> u32 {
    u32::try_from(environment.now_micros() / 1_000_000).unwrap_or(u32::MAX)
}

//! Read of a whole table in steps, before a schema is changed.

use std::collections::VecDeque;
use std::sync::Arc;

use recto_model::Table;
use recto_store::{ReadOptions, ScanPosition, ScanRead, TokenRange};

use crate::error::Result;
use crate::pace::Pace;
use crate::shared::Shared;

/// Maximum number of rows of one read.
const STEP_ROWS: u32 = 1_000;
/// Maximum size of the rows of one read, in bytes.
const STEP_BYTES: u64 = 2 << 20;

/// Reader of a whole table, with the ranges that remain to be read.
pub(crate) struct WholeTable<'s> {
    shared: &'s Shared,
    table: Arc<Table>,
    options: ReadOptions,
    ranges: VecDeque<TokenRange>,
    /// Position within the first range after which the next read begins. `None`: the start of the range.
    after: Option<ScanPosition>,
    pace: Pace,
}

impl<'s> WholeTable<'s> {
    /// Begins to read a table, at most `rows_per_second` rows in each second. The maximum size of a read is
    /// [`STEP_BYTES`], instead of that in `options`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn new(
        table: &Arc<Table>,
        options: ReadOptions,
        rows_per_second: Option<u32>,
        shared: &'s Shared,
    ) -> Result<Self> {
        let ranges = shared.store.snapshot()?.token_ranges(table, 1).await?;
        Ok(Self {
            shared,
            table: Arc::clone(table),
            options: ReadOptions {
                max_bytes: STEP_BYTES,
                ..options
            },
            ranges: ranges.into(),
            after: None,
            pace: Pace::new(rows_per_second, &shared.environment),
        })
    }

    /// Returns the next rows, or `None` at the end of the table. Each read uses its own snapshot, and may return no
    /// rows.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<ScanRead>> {
        let Some(range) = self.ranges.front() else {
            return Ok(None);
        };
        tokio::time::sleep(self.pace.after(0, &self.shared.environment)).await;
        let (snapshot, rows) = (self.shared.store.snapshot()?, self.pace.step_rows(STEP_ROWS));
        let mut read = snapshot
            .scan(&self.table, range, self.after.as_ref(), rows, &self.options)
            .await?;
        self.pace.after(read.rows.len() as u64, &self.shared.environment);
        self.after = read.next.take();
        if self.after.is_none() {
            self.ranges.pop_front();
        }
        Ok(Some(read))
    }
}

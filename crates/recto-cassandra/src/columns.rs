//! Detection of columns that exist in a table but that this process does not know.
//!
//! A put that replaces a row with nulls deletes the row at the timestamp before its own. This
//! leaves one tombstone per row; writing nulls would leave one per null. But the deletion would
//! also delete values in columns that a newer program added and this program does not know. The
//! client therefore asks the cluster for the table's columns before such a put, and trusts the
//! answer for [`LOOK_HOLDS`]. A process that adds columns waits for a longer time
//! ([`WAIT_FOR_WRITERS`]) before it writes the first value. A deletion by a writer that did not
//! know the column is then older than any value in it, and does not delete the value.

use std::collections::HashMap;
use std::time::Duration;

use recto_model::Table;
use recto_store::StoreError;
use tokio::sync::Mutex;

use crate::client::{Client, Deadline};
use crate::schema::typed_rows;

/// Time for which a list of columns remains valid, counted from before the request.
const LOOK_HOLDS: Duration = Duration::from_millis(200);
/// Time for which a process waits after it added columns, so that all writers know them. The time
/// exceeds [`LOOK_HOLDS`] by more than the clocks of two machines may differ.
const WAIT_FOR_WRITERS: Duration = Duration::from_millis(500);

/// Number of columns that each table had when the client last asked the cluster, by the table's
/// name.
#[derive(Debug, Default)]
pub(crate) struct SeenColumns(Mutex<HashMap<String, Seen>>);

#[derive(Debug)]
struct Seen {
    looked_at_nanos: u64,
    /// Number of columns; `None` if the cluster did not report it.
    count: Option<usize>,
}

impl Client {
    /// Returns whether the table in the cluster has only the columns of `table`. Returns false if
    /// the cluster does not report the table's columns.
    pub(crate) async fn knows_all_columns(&self, table: &Table, deadline: &Deadline) -> bool {
        // The first caller that finds the column count out of date asks the cluster. Other callers
        // wait for its result.
        let Ok(mut seen) = deadline.limit(self.seen_columns.0.lock()).await else {
            return false;
        };
        let now_nanos = self.environment.monotonic_nanos();
        let holds =
            |seen: &&Seen| u128::from(now_nanos.saturating_sub(seen.looked_at_nanos)) < LOOK_HOLDS.as_nanos();
        // The number of columns suffices: all columns of `table` exist, because otherwise the
        // cluster rejects the write.
        let knows_all = |seen: &Seen| seen.count == Some(table.columns().len());
        if let Some(seen) = seen.get(table.name()).filter(holds) {
            return knows_all(seen);
        }
        let found = Seen {
            looked_at_nanos: now_nanos,
            count: self.count_columns(table.name(), deadline).await.ok(),
        };
        let knows_all = knows_all(&found);
        seen.insert(table.name().to_owned(), found);
        knows_all
    }

    async fn count_columns(&self, table: &str, deadline: &Deadline) -> Result<usize, StoreError> {
        let text = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";
        let values = (self.config.keyspace.as_str(), table);
        let result = self.ask(text, values, deadline).await?;
        Ok(typed_rows::<(String,)>(result)?.len())
    }

    /// Waits until every writer knows the columns that were just added.
    pub(crate) async fn await_writers(&self) {
        tokio::time::sleep(WAIT_FOR_WRITERS).await;
    }
}

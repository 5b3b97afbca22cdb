//! Which columns a table has beyond those that its user knows.
//!
//! A replacing put with nulls deletes the row a stamp before it: one tombstone a row, where nulls
//! would be one each. But that would also delete what a newer program keeps in a column that this one
//! does not know. So before it, the cluster is asked which columns there are; the answer holds for
//! [`LOOK_HOLDS`], and whoever adds columns waits for longer than that ([`WAIT_FOR_WRITERS`]) before
//! the first value of one is written. A deletion of who did not know of the column then has an older
//! stamp than any value in it, and leaves it alone.

use std::collections::HashMap;
use std::time::Duration;

use recto_model::Table;
use recto_store::StoreError;
use tokio::sync::Mutex;

use crate::client::{Client, Deadline};
use crate::schema::typed_rows;

/// For how long it holds which columns a table was seen to have, counted from before the question.
const LOOK_HOLDS: Duration = Duration::from_millis(200);
/// How long whoever added columns waits, so that all who write know of them: longer than a look
/// holds by what clocks of different machines may differ.
const WAIT_FOR_WRITERS: Duration = Duration::from_millis(500);

/// What tables were seen to have.
#[derive(Debug, Default)]
pub(crate) struct SeenColumns(Mutex<HashMap<String, Seen>>);

#[derive(Debug)]
struct Seen {
    looked_at_nanos: u64,
    /// How many columns; none: the cluster did not tell.
    count: Option<usize>,
}

impl Client {
    /// Whether the cluster's table has no columns but those of `table`; false where it does not tell.
    pub(crate) async fn knows_all_columns(&self, table: &Table, deadline: &Deadline) -> bool {
        // Who finds the answer out of date asks, and the others wait for that.
        let Ok(mut seen) = deadline.limit(self.seen_columns.0.lock()).await else {
            return false;
        };
        let now_nanos = self.environment.monotonic_nanos();
        let holds =
            |seen: &&Seen| u128::from(now_nanos.saturating_sub(seen.looked_at_nanos)) < LOOK_HOLDS.as_nanos();
        // All that it knows are there, or the write would be refused.
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

    /// Waits until every writer knows of columns that were just added.
    pub(crate) async fn await_writers(&self) {
        tokio::time::sleep(WAIT_FOR_WRITERS).await;
    }
}

//! Changing the tables of a store.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Table;
use recto_store::{Store, StoreError, StoreErrorKind, TableOutcome};

use crate::error::{Error, ErrorKind, Result};

/// How often changing a table is tried again when its outcome is unknown.
const MAX_ATTEMPTS: u32 = 3;
/// How long to wait before trying again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// What a schema needs done to one table.
#[derive(Debug)]
pub(crate) enum TableChange {
    /// It is made.
    Make(Table),
    /// Columns are added to it.
    Extend {
        /// The table as recorded.
        there: Table,
        /// The table as it shall be.
        table: Table,
    },
    /// It is dropped with its rows.
    Drop(String),
}

impl TableChange {
    /// The table's name.
    fn name(&self) -> &str {
        match self {
            Self::Make(table) | Self::Extend { table, .. } => table.name(),
            Self::Drop(name) => name,
        }
    }

    /// What has become of the table then.
    fn done(&self) -> &'static str {
        match self {
            Self::Make(_) => "made",
            Self::Extend { .. } => "extended",
            Self::Drop(_) => "dropped",
        }
    }
}

/// Changes a table, however often it takes to know that it is changed.
pub(crate) async fn change_table(store: &Arc<dyn Store>, change: &TableChange) -> Result<()> {
    let mut last = None;
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        let outcome = match change {
            TableChange::Make(table) => store.create_table(table).await?,
            TableChange::Extend { there, table } => {
                store.add_columns(there, table).await.map_err(not_extended)?
            }
            TableChange::Drop(name) => store.drop_table(name).await?,
        };
        match outcome {
            TableOutcome::Done => return Ok(()),
            TableOutcome::Unknown(error) => last = Some(error),
        }
    }
    let mut error = Error::new(
        ErrorKind::OutcomeUnknown,
        format!(
            "it is not known whether table {} was {}",
            change.name(),
            change.done()
        ),
    )
    .with_hint("run apply again: it finds out");
    if let Some(last) = last {
        error = error.with_source(last);
    }
    Err(error)
}

/// The recorded table can be extended, so if the one that is there cannot, it is another.
fn not_extended(error: StoreError) -> Error {
    if error.kind() != StoreErrorKind::Table {
        return error.into();
    }
    Error::new(ErrorKind::SchemaMismatch, error.to_string())
        .with_hint(
            "the table is not as recorded: another apply changes it now, or one was interrupted; \
             run plan again, and apply a schema that has the columns the table has",
        )
        .with_source(error)
}

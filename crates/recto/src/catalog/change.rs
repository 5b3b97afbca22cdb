//! Changes of the tables of a store.

use std::sync::Arc;

use recto_model::{Environment, Table};
use recto_store::{Store, StoreError, StoreErrorKind, TableOutcome};

use crate::error::{Error, ErrorKind, Result};
use crate::settle::{Attempt, Policy, settle};

/// Change of one table: its creation, extension or removal.
#[derive(Debug)]
pub(crate) enum TableChange {
    /// Create the table.
    Make(Table),
    /// Add columns to the table.
    Extend {
        /// Table before the change, as recorded.
        there: Table,
        /// Table after the change, with the added columns.
        table: Table,
    },
    /// Drop the table with its rows.
    Drop(String),
}

impl TableChange {
    fn name(&self) -> &str {
        match self {
            Self::Make(table) | Self::Extend { table, .. } => table.name(),
            Self::Drop(name) => name,
        }
    }

    /// Returns the past participle that names the change in messages.
    fn done(&self) -> &'static str {
        match self {
            Self::Make(_) => "made",
            Self::Extend { .. } => "extended",
            Self::Drop(_) => "dropped",
        }
    }
}

/// Changes a table, and retries until the outcome is known or the retry policy ends.
pub(crate) async fn change_table(
    store: &Arc<dyn Store>,
    environment: &Environment,
    change: &TableChange,
) -> Result<()> {
    let changed = settle(environment, Policy::TABLE, |_| attempt(store, change)).await;
    changed.map_err(|unsettled| {
        unsettled.or(|unknown| {
            Error::new(
                ErrorKind::OutcomeUnknown,
                format!(
                    "it is not known whether table {} was {}",
                    change.name(),
                    change.done()
                ),
            )
            .with_hint("run the command again to find out")
            .with_source(unknown)
        })
    })
}

async fn attempt(store: &Arc<dyn Store>, change: &TableChange) -> Attempt<(), Error> {
    let outcome = match change {
        TableChange::Make(table) => store.create_table(table).await.map_err(Error::from),
        TableChange::Extend { there, table } => store.add_columns(there, table).await.map_err(not_extended),
        TableChange::Drop(name) => store.drop_table(name).await.map_err(Error::from),
    };
    match outcome {
        Ok(TableOutcome::Done) => Attempt::Known(()),
        Ok(TableOutcome::Unknown(error)) => Attempt::Unknown(error),
        Err(error) => Attempt::Failed(error),
    }
}

/// Converts the error of a failed extension of a table. The table as recorded can be extended. If
/// the existing table cannot be extended, it differs from its record.
fn not_extended(error: StoreError) -> Error {
    if error.kind() != StoreErrorKind::Table {
        return error.into();
    }
    Error::new(ErrorKind::SchemaMismatch, error.to_string())
        .with_hint(
            "run plan again, and apply a schema with the columns of the table: the table differs from its \
             record, because of a concurrent or interrupted apply",
        )
        .with_source(error)
}

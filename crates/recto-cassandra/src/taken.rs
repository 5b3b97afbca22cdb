//! Wait for tables that a node lists but on which it does not accept statements yet. A new table is
//! in this state for some milliseconds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use recto_store::{StoreError, StoreErrorKind, TableState};

use crate::client::{Client, Deadline};
use crate::cql::table_name;
use crate::error::of_prepare;

/// Wait between two checks whether statements on a table are accepted.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of tables that are concurrently checked for accepting statements.
const MAX_ASKED_AT_ONCE: usize = 16;

/// Name and id of a table that the system tables list. The nodes may not accept statements on it
/// yet.
pub(crate) struct ListedTable {
    pub(crate) name: String,
    pub(crate) id: String,
}

/// Identifiers of the tables on which statements are accepted, by the names of the tables. A table
/// in this map is not checked again.
#[derive(Debug, Default)]
pub(crate) struct TakenTables(Mutex<HashMap<String, String>>);

impl TakenTables {
    fn contains(&self, table: &ListedTable) -> bool {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.get(&table.name) == Some(&table.id)
    }

    fn insert(&self, table: ListedTable) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(table.name, table.id);
    }
}

impl Client {
    /// Checks that the node accepts statements on tables that the system tables list.
    ///
    /// # Errors
    /// `Table` if statements on a table are not accepted yet. Any other error counts as success, because it
    /// does not show that the table is rejected.
    pub(crate) async fn check_taken(
        &self,
        listed: Vec<ListedTable>,
        deadline: &Deadline,
    ) -> Result<(), StoreError> {
        let unknown = listed
            .into_iter()
            .filter(|table| !self.taken_tables.contains(table));
        let asked = unknown.map(|table| async move {
            match self.prepare_read(&table.name, deadline).await {
                Ok(()) => self.taken_tables.insert(table),
                Err(error) if error.kind() == StoreErrorKind::Table => return Err(error),
                Err(_) => {}
            }
            Ok(())
        });
        let asked: Vec<_> = asked.collect();
        let mut answers = stream::iter(asked).buffer_unordered(MAX_ASKED_AT_ONCE);
        while let Some(answer) = answers.next().await {
            answer?;
        }
        Ok(())
    }

    /// Prepares a read of a table. Fails with the error kind `Table` as long as statements on the
    /// table are not accepted.
    async fn prepare_read(&self, table: &str, deadline: &Deadline) -> Result<(), StoreError> {
        let name = table_name(&self.config.keyspace, table);
        let text = format!("SELECT * FROM {name} LIMIT 1");
        let prepared = deadline.limit(self.session.prepare(text.as_str())).await?;
        prepared.map(drop).map_err(|error| of_prepare(error).error)
    }

    /// Waits until statements on a listed table are accepted.
    ///
    /// # Errors
    /// Statements are not accepted within the deadline, or the node cannot be reached.
    pub(crate) async fn await_taken(&self, table: &str, deadline: &Deadline) -> Result<(), StoreError> {
        loop {
            match self.prepare_read(table, deadline).await {
                Err(error) if error.kind() == StoreErrorKind::Table && deadline.remaining().is_ok() => {
                    tokio::time::sleep(ASK_INTERVAL).await;
                }
                prepared => return prepared,
            }
        }
    }
}

/// Compares tables with the requested tables until statements on all matching tables are accepted.
/// A table that is dropped in the meantime is missing in the result.
///
/// # Errors
/// The tables cannot be read, or statements on one of them are not accepted within the deadline.
pub(crate) async fn compare_taken<C, K>(
    deadline: &Deadline,
    compare: impl Fn() -> C,
    check: impl Fn(Vec<ListedTable>) -> K,
) -> Result<Vec<TableState>, StoreError>
where
    C: Future<Output = Result<(Vec<TableState>, Vec<ListedTable>), StoreError>>,
    K: Future<Output = Result<(), StoreError>>,
{
    loop {
        let (states, listed) = compare().await?;
        match check(listed).await {
            Ok(()) => return Ok(states),
            Err(error) if deadline.remaining().is_err() => return Err(error),
            Err(_) => tokio::time::sleep(ASK_INTERVAL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use recto_model::Environment;

    use super::*;
    use crate::client::TimeLimit;

    const TIME: Duration = Duration::from_secs(5);

    /// Compares a table that the system tables list in the first `listed` reads, and on which the
    /// first `rejected` statements are rejected.
    async fn compare(listed: u32, rejected: u32, time: Duration) -> Result<Vec<TableState>, StoreError> {
        let (compared, checked) = (Cell::new(0), Cell::new(0));
        let states = || {
            compared.set(compared.get() + 1);
            let is_listed = compared.get() <= listed;
            let table = ListedTable {
                name: "t".to_owned(),
                id: "1".to_owned(),
            };
            std::future::ready(Ok(if is_listed {
                (vec![TableState::AsAsked], vec![table])
            } else {
                (vec![TableState::Missing], Vec::new())
            }))
        };
        let check = |listed: Vec<ListedTable>| {
            checked.set(checked.get() + 1);
            let is_rejected = !listed.is_empty() && checked.get() <= rejected;
            let error = StoreError::new(StoreErrorKind::Table, "the table does not exist");
            std::future::ready(if is_rejected { Err(error) } else { Ok(()) })
        };
        let deadline = Deadline::after(&Environment::system(), time, TimeLimit::Schema);
        let states = compare_taken(&deadline, states, check).await;
        assert_eq!(compared.get(), checked.get());
        states
    }

    #[tokio::test]
    async fn waits_for_a_table_that_is_listed() {
        assert_eq!(compare(9, 3, TIME).await.unwrap(), [TableState::AsAsked]);
    }

    #[tokio::test]
    async fn finds_a_table_that_is_dropped_meanwhile() {
        assert_eq!(compare(2, 9, TIME).await.unwrap(), [TableState::Missing]);
    }

    #[tokio::test]
    async fn stops_waiting_at_the_deadline() {
        let error = compare(9, 9, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Table);
    }
}

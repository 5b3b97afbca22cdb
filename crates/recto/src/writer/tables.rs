//! Requests to the tables of writers. One table has the registrations of processes, and the other
//! the intents of their changes.

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Bound, Cells, Environment, Slice, Table};
use recto_protocol::views::writers::WRITER_PARTITIONS;
use recto_protocol::views::{Incarnation, Intent, IntentPlace, Writer};
use recto_store::{
    Cas, CasCondition, ConsistencyLevel, Mutation, Operation, PartitionWrite, ReadOptions, RowAddress, Stamp,
    Store, TableState,
};

use crate::catalog::change::{TableChange, change_table};
use crate::error::{Error, ErrorKind, Result};
use crate::options::read_options;

/// Maximum number of rows of a partition that one read returns.
const CHUNK_ROWS: u32 = 1_000;

/// Definitions of the tables `recto_writers` (registrations of processes) and `recto_intents`
/// (records of unfinished changes).
#[derive(Debug, Clone)]
pub(super) struct Tables {
    writers: Arc<Table>,
    intents: Arc<Table>,
}

impl Tables {
    pub(super) fn new() -> Self {
        Self {
            writers: Arc::new(Writer::table()),
            intents: Arc::new(Intent::table()),
        }
    }

    /// Creates the tables `recto_writers` and `recto_intents` if they are missing.
    pub(super) async fn make(&self, store: &Arc<dyn Store>, environment: &Environment) -> Result<()> {
        let tables = [Table::clone(&self.writers), Table::clone(&self.intents)];
        let states = store.compare_tables(&tables).await?;
        for (table, state) in tables.into_iter().zip(states) {
            match state {
                TableState::AsAsked => {}
                TableState::Missing => change_table(store, environment, &TableChange::Make(table)).await?,
                TableState::Other(difference) => {
                    let message = format!("table {} has an unexpected form: {difference}", table.name());
                    return Err(Error::new(ErrorKind::Corrupt, message)
                        .with_hint("undo the change, which another program made"));
                }
            }
        }
        Ok(())
    }

    /// Returns the conditional write that registers a process, renews its registration, or marks it
    /// as dead. It is applied only if the stored counter is `counter`.
    pub(super) fn renewal(&self, of: Incarnation, writer: &Writer, counter: Option<u64>) -> Cas {
        let expected = counter.map(|counter| counter.to_be_bytes().to_vec());
        self.replace(of, writer, Writer::COUNTER, expected)
    }

    /// Returns the conditional write that records the number of times that the intents of a dead
    /// process were resolved. It is applied only if the stored number is `resolved`.
    pub(super) fn resolved(&self, of: Incarnation, writer: &Writer, resolved: u32) -> Cas {
        let expected = resolved.to_be_bytes().to_vec();
        self.replace(of, writer, Writer::RESOLVED, Some(expected))
    }

    /// Returns the conditional write that removes the registration of a dead process. It is applied
    /// only if the stored number of resolutions is `resolved`.
    pub(super) fn forgetting(&self, of: Incarnation, resolved: u32) -> Cas {
        self.remove(of, Writer::RESOLVED, resolved.to_be_bytes().to_vec())
    }

    /// Returns the conditional write that removes the registration of a process that ends. It is
    /// applied only if the stored counter is `counter`.
    pub(super) fn leaving(&self, of: Incarnation, counter: u64) -> Cas {
        self.remove(of, Writer::COUNTER, counter.to_be_bytes().to_vec())
    }

    fn remove(&self, of: Incarnation, column: u16, expected: Vec<u8>) -> Cas {
        let clustering = clustering(&of.0);
        let deletion = Operation::DeleteRow {
            clustering: clustering.clone(),
        };
        self.conditional(of, clustering, column, Some(expected), deletion)
    }

    fn replace(&self, of: Incarnation, writer: &Writer, column: u16, expected: Option<Vec<u8>>) -> Cas {
        let clustering = clustering(&of.0);
        let put = Operation::Put {
            clustering: clustering.clone(),
            cells: writer.cells(),
            replace: true,
        };
        self.conditional(of, clustering, column, expected, put)
    }

    fn conditional(
        &self,
        of: Incarnation,
        clustering: Cells,
        column: u16,
        expected: Option<Vec<u8>>,
        operation: Operation,
    ) -> Cas {
        Cas {
            table: Arc::clone(&self.writers),
            partition: of.writers_partition(),
            conditions: vec![CasCondition {
                row: RowAddress::Row(clustering),
                column,
                expected,
            }],
            mutations: vec![Mutation {
                operation,
                stamp: None,
                ttl_seconds: None,
            }],
        }
    }

    /// Returns the write that stores an intent (the record of an unfinished change) of the process
    /// `of`.
    pub(super) fn note(&self, of: Incarnation, place: IntentPlace, intent: &Intent) -> PartitionWrite {
        let put = Operation::Put {
            clustering: clustering(&place.row.to_be_bytes()),
            cells: intent.cells(),
            replace: true,
        };
        self.of_segment(of, place.segment, put, intent.stamp)
    }

    /// Returns the write that deletes a segment (partition of intents), with all intents whose
    /// timestamp is at most `newest`, even if they arrive later.
    pub(super) fn deletion(&self, of: Incarnation, segment: u64, newest: i64) -> PartitionWrite {
        self.of_segment(of, segment, Operation::DeletePartition, newest)
    }

    fn of_segment(&self, of: Incarnation, segment: u64, operation: Operation, stamp: i64) -> PartitionWrite {
        PartitionWrite {
            table: Arc::clone(&self.intents),
            partition: of.intents_partition(segment),
            mutations: vec![Mutation {
                operation,
                stamp: Some(Stamp(stamp)),
                ttl_seconds: None,
            }],
        }
    }

    /// Reads the registrations of all processes that write to the store.
    pub(super) async fn registrations(
        &self,
        store: &Arc<dyn Store>,
        level: Option<ConsistencyLevel>,
        timeout: Option<Duration>,
    ) -> Result<Vec<(Incarnation, Writer)>> {
        let mut all = Vec::new();
        for shard in 0..WRITER_PARTITIONS {
            let partition = std::iter::once(Some(&i32::from(shard).to_be_bytes()[..])).collect();
            let options = ReadOptions {
                consistency: level,
                ..read_options(timeout)
            };
            read_partition(store, &self.writers, partition, &options, |row| {
                all.push(Writer::read(row).map_err(stored)?);
                Ok(())
            })
            .await?;
        }
        Ok(all)
    }

    /// Reads the intents (records of unfinished changes) of a segment.
    pub(super) async fn intents(
        &self,
        store: &Arc<dyn Store>,
        of: Incarnation,
        segment: u64,
        timeout: Option<Duration>,
    ) -> Result<Vec<Intent>> {
        let mut all = Vec::new();
        let partition = of.intents_partition(segment);
        read_partition(store, &self.intents, partition, &read_options(timeout), |row| {
            all.push(Intent::read(row).map_err(stored)?);
            Ok(())
        })
        .await?;
        Ok(all)
    }
}

/// Reads a partition to its end, in reads of bounded size. Calls `each` for each row. A row has one
/// clustering cell.
async fn read_partition(
    store: &Arc<dyn Store>,
    table: &Arc<Table>,
    partition: Cells,
    options: &ReadOptions,
    mut each: impl FnMut(recto_model::RowRef<'_>) -> Result<()>,
) -> Result<()> {
    let mut slice = Slice::from_start(table, partition, CHUNK_ROWS);
    let column = table.partition().len();
    loop {
        let read = store.snapshot()?.slice(&slice, options).await?;
        for row in read.rows.iter() {
            each(row)?;
        }
        let last = read.rows.iter().last().and_then(|row| row.get(column));
        match last {
            Some(last) if !read.exhausted => slice.from = Bound::After(clustering(last)),
            _ => return Ok(()),
        }
    }
}

/// Returns a clustering key that consists of one cell.
fn clustering(cell: &[u8]) -> Cells {
    std::iter::once(Some(cell)).collect()
}

/// Returns the error that stored data is damaged or that a newer release wrote it.
pub(super) fn stored(error: recto_protocol::views::StoredError) -> Error {
    Error::new(ErrorKind::Corrupt, error.to_string())
        .with_hint(error.hint())
        .with_source(error)
}

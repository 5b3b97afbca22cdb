//! Removal of the range maps, samples and sums of a dropped table, so that a new table with the same name begins
//! without them.

use std::sync::Arc;

use recto_model::{Cells, Slice, Table};
use recto_protocol::buckets::limits::MAX_WINDOW_PIECES;
use recto_store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, PartitionWrite, ReadOptions, RowAddress, RowsRead,
    TokenRange, WriteOptions,
};

use crate::directory::{COMPARED, START, STATICS};
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{MAX_FORGOTTEN_AT_ONCE, MAX_STEP_TIME};
use crate::place::PieceStore;
use crate::tables::mutation;

impl PieceStore {
    /// Removes all range maps, samples, sums and time buckets of a table that no longer exists.
    ///
    /// # Errors
    /// The store did not finish in time, or another process changed the data. Nothing is lost, and the caller can
    /// repeat the call.
    pub(crate) async fn forget(&self, table: &str) -> Result<()> {
        self.copies.forget(table);
        self.counters.forget(table);
        self.roots.forget(table);
        self.registered.forget(table);
        for directory in self.partitions_of(&self.tables.directories, table).await? {
            self.forget_directory(directory).await?;
        }
        for own in [&self.tables.samples, &self.tables.sums, &self.tables.times] {
            for partition in self.partitions_of(own, table).await? {
                let delete = PartitionWrite {
                    table: Arc::clone(own),
                    partition,
                    mutations: vec![mutation(Operation::DeletePartition, (self.stamps)(), None)],
                };
                let deleted = self.write(delete, self.deadline(MAX_STEP_TIME)).await;
                deleted.map_err(|undone| undone.error)?;
            }
        }
        Ok(())
    }

    /// Returns the partitions of `own`, one of the engine's tables (such as the table of samples),
    /// that belong to the user's table `table`.
    async fn partitions_of(&self, own: &Arc<Table>, table: &str) -> Result<Vec<Cells>> {
        let (mut found, mut after) = (Vec::new(), None);
        let keys = own.partition().len();
        loop {
            let (range, after_now) = (TokenRange::whole(), after.take());
            let read = self.again(self.deadline(MAX_STEP_TIME), |timeout| {
                let (range, after) = (&range, after_now.as_ref());
                async move {
                    let options = ReadOptions {
                        timeout,
                        ..ReadOptions::default()
                    };
                    let snapshot = self.store.snapshot()?;
                    let read = snapshot.scan_partitions(own, range, after, MAX_FORGOTTEN_AT_ONCE, &options);
                    Ok(read.await?)
                }
            });
            let read = read.await?;
            let of_table = read
                .rows
                .iter()
                .filter(|row| row.get(0) == Some(table.as_bytes()));
            found.extend(of_table.map(|row| (0..keys).map(|column| row.get(column)).collect::<Cells>()));
            match read.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    async fn forget_directory(&self, partition: Cells) -> Result<()> {
        let own = &self.tables.directories;
        let deadline = self.deadline(MAX_STEP_TIME);
        loop {
            let Some(timeout) = self.request_time(deadline) else {
                return Err(PiecesError::out_of_time(None));
            };
            let slice = Slice::from_start(own, partition.clone(), MAX_WINDOW_PIECES as u32);
            let options = self.directory_options(true, timeout);
            let read = self.store.snapshot()?.slice(&slice, &options).await?;
            let Some(cas) = emptied(own, &partition, &read) else {
                return Ok(());
            };
            let options = WriteOptions {
                timeout,
                ..WriteOptions::default()
            };
            match self.store.cas(cas, options).await {
                // After any outcome, read the range map again: the next round deletes its remaining
                // content.
                Ok(CasOutcome::Applied | CasOutcome::Unknown(_) | CasOutcome::NotApplied { .. }) => {}
                Ok(CasOutcome::Refused(error)) | Err(error) => {
                    let error = PiecesError::from(error);
                    if error.kind() != PiecesErrorKind::Timeout
                        && error.kind() != PiecesErrorKind::Unavailable
                    {
                        return Err(error);
                    }
                }
            }
            self.pause(1).await;
        }
    }
}

/// Returns the write that deletes the rows of a range map that `read` has, on the condition that the map
/// has not changed since. Returns `None` if there is no range map.
pub(crate) fn emptied(own: &Arc<Table>, partition: &Cells, read: &RowsRead) -> Option<Cas> {
    let first = read.rows.iter().next()?;
    let undated = |operation: Operation| Mutation {
        operation,
        stamp: None,
        ttl_seconds: None,
    };
    let delete = |start: Option<&[u8]>| {
        let clustering = std::iter::once(start).collect();
        undated(Operation::DeleteRow { clustering })
    };
    let mut mutations: Vec<Mutation> = read.rows.iter().map(|row| delete(row.get(START))).collect();
    if read.exhausted {
        let statics = own.statics().len();
        mutations.push(undated(Operation::PatchStatic {
            columns: (0..statics as u16).collect(),
            cells: (0..statics).map(|_| None).collect(),
        }));
    }
    Some(Cas {
        table: Arc::clone(own),
        partition: partition.clone(),
        conditions: vec![CasCondition {
            row: RowAddress::Static,
            column: COMPARED,
            expected: first.get(STATICS + usize::from(COMPARED)).map(<[u8]>::to_vec),
        }],
        mutations,
    })
}

//! Removal of the bucket data of a dropped table.

use std::time::Duration;

use recto_model::{Cells, Slice};
use recto_protocol::buckets::limits::MAX_WINDOW_PIECES;
use recto_store::{ReadOptions, TokenRange, TransactionOutcome, WriteOptions};

use super::Transacted;
use super::locks::All;
use crate::error::Result;
use crate::forget::emptied;
use crate::limits::MAX_FORGOTTEN_AT_ONCE;

impl Transacted {
    /// Locks all partitions against writes and splits, so that a table can be dropped or created together with its
    /// range maps.
    ///
    /// # Errors
    /// `Timeout`: other tasks write or split for the whole time.
    pub(crate) async fn hold_all(&self, time: Duration) -> Result<All> {
        self.locks.all(&self.environment, self.deadline(time)).await
    }

    /// Removes all range maps of a table that no longer exists. The caller holds all locks.
    ///
    /// # Errors
    /// The store cannot remove them. Some may be removed, and the caller can repeat the call.
    pub(crate) async fn forget(&self, _held: &All, table: &str) -> Result<()> {
        self.known.forget_table(table);
        self.counters.forget(table);
        if !self.is_there().await? {
            return Ok(());
        }
        for directory in self.directories_of(table).await? {
            self.forget_directory(directory).await?;
        }
        Ok(())
    }

    /// Returns the partitions of the table of range maps that belong to a table of rows.
    async fn directories_of(&self, table: &str) -> Result<Vec<Cells>> {
        let own = &self.tables.directories;
        let (snapshot, range) = (self.store.snapshot()?, TokenRange::whole());
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let options = ReadOptions::default();
            let read = snapshot.scan_partitions(own, &range, after.as_ref(), MAX_FORGOTTEN_AT_ONCE, &options);
            let read = read.await?;
            let of_table = read
                .rows
                .iter()
                .filter(|row| row.get(0) == Some(table.as_bytes()));
            let keys = own.partition().len();
            found.extend(of_table.map(|row| (0..keys).map(|column| row.get(column)).collect::<Cells>()));
            match read.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    async fn forget_directory(&self, partition: Cells) -> Result<()> {
        let own = &self.tables.directories;
        loop {
            let slice = Slice::from_start(own, partition.clone(), MAX_WINDOW_PIECES as u32);
            let read = self
                .store
                .snapshot()?
                .slice(&slice, &ReadOptions::default())
                .await?;
            let Some(change) = emptied(own, &partition, &read) else {
                return Ok(());
            };
            let sent = self
                .store
                .transact(vec![change], Vec::new(), WriteOptions::default());
            match sent.await? {
                // The next round reads the current content.
                TransactionOutcome::Applied
                | TransactionOutcome::NotApplied { .. }
                | TransactionOutcome::Conflict(_) => {}
                TransactionOutcome::Unknown(error) | TransactionOutcome::Refused(error) => {
                    return Err(error.into());
                }
            }
        }
    }
}

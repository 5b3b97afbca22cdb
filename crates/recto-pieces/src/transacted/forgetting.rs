//! What is forgotten when a table goes.

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
    /// Nobody writes to a partition that is kept in pieces, or cuts one, while it is held: so that a table goes, or comes, together with its
    /// directories.
    ///
    /// # Errors
    /// `Timeout`: others write or cut for that long.
    pub(crate) async fn hold_all(&self, time: Duration) -> Result<All> {
        self.locks.all(&self.environment, self.deadline(time)).await
    }

    /// Forgets all directories of a table that is not there any more, while nobody writes.
    ///
    /// # Errors
    /// The store cannot do it: some are forgotten, and it is to be asked again.
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

    /// The partitions of the table of directories that are of a table of rows.
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
                // What is there now is looked at.
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

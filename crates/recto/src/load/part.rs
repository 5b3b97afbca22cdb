//! Writes of parts of chunks (ranges of a collection's rows), for collections that have views or
//! whose records change. Each row is written with its entries in views or not at all.
//!
//! On a store with transactions, a part is one transaction. The first attempt assumes that none of
//! the records exists, as in the first load of a file. If a record exists, nothing is written. The
//! next attempt then reads the stored records first.
//!
//! - Collections with `writes = "overwrite"`: the first attempt already reads the stored records,
//!   because rows replace records silently and the load reports the number of replaced rows.
//! - Collections with unique fields: each row is a separate transaction, which may be rejected
//!   alone.

use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::schema::WriteMode;
use recto_protocol::views::Arranged;
use recto_store::{
    Atomicity, PartitionWrite, PointRead, ReadOptions, RowsMet, Snapshot, TransactionOutcome, WriteOptions,
};

use super::buffer::{Buffer, Chunk, Loaded};
use super::pipeline::blocking;
use super::whole::{StoredRow, Whole, Writing};
use super::write::{Answer, ChunkWriter, Part, RequestResult, Settled, until_settled};
use crate::catalog;
use crate::core::CollectionCore;
use crate::error::Result;
use crate::shared::Writing as UnderWay;
use crate::viewed::{Viewed, Written};
use crate::writes::mutation;

/// Maximum number of records of a part that are read concurrently.
const MAX_READS: usize = 32;

/// Maximum number of logged batches (atomic writes of Cassandra) of a part that are sent
/// concurrently.
const MAX_BATCHES: usize = 16;

/// Rows of a chunk (a range of a collection's rows) that are being written with their entries in
/// views.
pub(super) struct WholePart<'a> {
    pub(super) writer: &'a ChunkWriter,
    pub(super) buffer: &'a Arc<Buffer>,
    pub(super) chunk: Chunk,
    pub(super) viewed: &'a Arc<Viewed>,
    pub(super) under_way: &'a UnderWay<'a>,
}

impl WholePart<'_> {
    /// Writes the part. If `looks` is true, first reads the stored records, and writes on the
    /// condition that they have not changed since.
    pub(super) async fn write(&self, looks: bool) -> Result<Settled<Part>> {
        let core = self.core();
        if !core.shared.store.limits().transactions {
            return self.send().await;
        }
        if !self.viewed.views.claims_tables().is_empty() {
            return self.change().await;
        }
        let there = if looks || core.definition.writes == WriteMode::Overwrite {
            Some(Arc::new(self.look().await?))
        } else {
            None
        };
        self.transact(there).await
    }

    pub(super) fn core(&self) -> &Arc<CollectionCore> {
        &self.writer.plan.targets[self.chunk.target].core
    }

    /// Reads the stored record of each row of the part. A result is `None` if no record is stored.
    async fn look(&self) -> Result<Vec<Option<StoredRow>>> {
        let shared = &self.writer.shared;
        let target = &self.writer.plan.targets[self.chunk.target];
        let read_of = |row| self.read_of(&Loaded { target, row });
        let reads: Vec<PointRead> = self
            .buffer
            .rows(self.chunk)
            .map(|(row, _)| read_of(row))
            .collect();
        let snapshot = shared.store.snapshot()?;
        let options = ReadOptions {
            stamps: true,
            ..shared.read_options()
        };
        let (snapshot, options) = (&*snapshot, &options);
        let there = reads
            .iter()
            .map(|read| self.there(snapshot, read, options).boxed());
        let there: Vec<_> = there.collect();
        stream::iter(there).buffered(MAX_READS).try_collect().await
    }

    /// Returns the request that reads the stored record of a row.
    pub(super) fn read_of(&self, row: &Loaded<'_>) -> PointRead {
        let core = self.core();
        PointRead {
            table: Arc::clone(&self.viewed.table),
            partition: mutation::partition(core, row),
            clustering: mutation::clustering(core, row),
        }
    }

    pub(super) async fn there(
        &self,
        snapshot: &dyn Snapshot,
        read: &PointRead,
        options: &ReadOptions,
    ) -> Result<Option<StoredRow>> {
        let found = snapshot.get(read, options).await?;
        let written = Written {
            stamp: found.stamps.first().copied().unwrap_or_default(),
            ends_at: None,
        };
        let row = found.rows.iter().next();
        let row = row.map(|row| self.viewed.row(row, written)).transpose()?;
        Ok(row.flatten())
    }

    /// Returns the writes of the part. `there` has the stored record of each row; without it, the
    /// records are assumed not to exist.
    async fn make(&self, there: Option<Arc<Vec<Option<StoredRow>>>>) -> Result<Whole> {
        let (plan, buffer) = (Arc::clone(&self.writer.plan), Arc::clone(self.buffer));
        let (viewed, chunk, stamp) = (Arc::clone(self.viewed), self.chunk, self.writer.stamp);
        let held = self.writer.shared.held();
        let now = self.writer.shared.environment.now_micros();
        blocking(move || {
            let writing = Writing::new(&plan.targets[chunk.target], &viewed, &held.recorded, now);
            writing.writes(
                &buffer,
                chunk,
                stamp,
                there.as_ref().map(|there| there.as_slice()),
            )
        })
        .await
    }

    async fn transact(&self, there: Option<Arc<Vec<Option<StoredRow>>>>) -> Result<Settled<Part>> {
        let ask = || self.ask_transaction(there.clone()).boxed();
        until_settled(&self.writer.shared, || self.under_way.check_lease(), ask).await
    }

    async fn ask_transaction(&self, there: Option<Arc<Vec<Option<StoredRow>>>>) -> RequestResult<Part> {
        // Create the writes again for each attempt, so that no copy of them takes
        // memory during a wait.
        let mut whole = self.make(there).await?;
        let part = Part::Whole(whole.became, whole.refused);
        if whole.writes.is_empty() {
            return Ok(Ok(Answer::Known(part)));
        }
        let generation = self.viewed.views.generation().0;
        if generation > 0 {
            whole.conditions.push(catalog::is_of_generation(generation));
        }
        let options = WriteOptions {
            relaxed: false,
            row_by_row: false,
            ..self.writer.options
        };
        let store = &self.writer.shared.store;
        let sent = store.transact(whole.conditions, whole.writes, options).await;
        Ok(sent.map(|outcome| match outcome {
            TransactionOutcome::Applied => Answer::Known(part),
            TransactionOutcome::NotApplied { .. } | TransactionOutcome::Conflict(_) => {
                Answer::Known(Part::Lost)
            }
            TransactionOutcome::Unknown(error) => Answer::Unknown(error),
            TransactionOutcome::Refused(error) => Answer::Refused(error),
        }))
    }

    /// Writes the part to a store without transactions: as separate changes if records can change,
    /// otherwise in logged batches of several rows each.
    async fn send(&self) -> Result<Settled<Part>> {
        if self.viewed.base.is_some() {
            return self.change().await;
        }
        let core = self.core();
        let mut whole = self.make(None).await?;
        let batch_bytes = core
            .shared
            .store
            .limits()
            .batch_bytes
            .min(self.writer.sizes.partition_bytes);
        let batches = whole.take_batches(batch_bytes, self.writer.sizes.partition_rows);
        let sent = batches.into_iter().map(|batch| self.send_batch(batch).boxed());
        let sent: Vec<_> = sent.collect();
        let mut sent = stream::iter(sent).buffer_unordered(MAX_BATCHES);
        while let Some(settled) = sent.try_next().await? {
            if let Settled::Refused(error) = settled {
                return Ok(Settled::Refused(error));
            }
        }
        Ok(Settled::Done(Part::Whole(whole.became, whole.refused)))
    }

    async fn send_batch(&self, batch: Vec<PartitionWrite>) -> Result<Settled<RowsMet>> {
        let ask = || self.ask_batch(&batch).boxed();
        until_settled(&self.writer.shared, || self.under_way.check_lease(), ask).await
    }

    async fn ask_batch(&self, batch: &[PartitionWrite]) -> RequestResult<RowsMet> {
        let (store, options) = (&self.writer.shared.store, self.writer.options);
        let sent = store.write_many(batch.to_vec(), Atomicity::Logged, options);
        Ok(sent.await.map(Answer::from))
    }
}

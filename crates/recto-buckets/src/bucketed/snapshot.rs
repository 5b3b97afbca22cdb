//! Reads of tables that are kept in buckets.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowSet, Slice, Table};
use recto_protocol::buckets::{Bucket, Shard};
use recto_store::read::MAX_GETS;
use recto_store::{
    PointRead, ReadOptions, RowEstimate, RowsRead, ScanPosition, ScanRead, Snapshot, StoreError, TokenRange,
};

use super::BucketedStore;
use super::estimate::Estimating;
use super::scan::Scan;
use super::tables::Bucketed;
use crate::directory::Seek;
use crate::place::Place;
use crate::shards;
use crate::tables::bucket_partition;

/// Maximum number of buckets whose reads the description of a slice includes.
const MAX_DESCRIBED: usize = 4;

pub(super) struct BucketedSnapshot {
    pub(super) inner: Arc<dyn Snapshot>,
    pub(super) store: BucketedStore,
}

impl BucketedSnapshot {
    /// Returns the rows of a slice from all of its buckets.
    pub(super) async fn rows(
        &self,
        bucketed: &Bucketed,
        slice: &Slice,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        let pieces = self.store.pieces().await?;
        let read = pieces
            .slice(&bucketed.pieced, &*self.inner, slice, options)
            .await?;
        Ok(bucketed.shown(read))
    }

    fn estimating<'e>(
        &'e self,
        bucketed: &'e Bucketed,
        slice: &'e Slice,
        options: &'e ReadOptions,
    ) -> Estimating<'e> {
        Estimating {
            snapshot: self,
            bucketed,
            slice,
            options,
        }
    }

    async fn row(
        &self,
        bucketed: &Bucketed,
        read: &PointRead,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        let slice = Slice {
            from: Bound::Before(read.clustering.clone()),
            to: Bound::After(read.clustering.clone()),
            ..Slice::from_start(&read.table, read.partition.clone(), 1)
        };
        self.rows(bucketed, &slice, options).await
    }
}

#[async_trait]
impl Snapshot for BucketedSnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        match self.store.bucketed(&slice.table)? {
            Some(bucketed) => self.rows(&bucketed, slice, options).await,
            None => self.inner.slice(slice, options).await,
        }
    }

    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        match self.store.bucketed(&slice.table) {
            Ok(Some(_)) => None,
            Ok(None) => self.inner.slice_now(slice, options),
            Err(error) => Some(Err(error)),
        }
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        match self.store.bucketed(&read.table)? {
            Some(bucketed) => self.row(&bucketed, read, options).await,
            None => self.inner.get(read, options).await,
        }
    }

    async fn get_many(
        &self,
        reads: &[PointRead],
        options: &ReadOptions,
    ) -> Result<Vec<RowsRead>, StoreError> {
        if reads.iter().all(|read| read.table.options().buckets.is_none()) {
            return self.inner.get_many(reads, options).await;
        }
        let each: Vec<_> = reads.iter().map(|read| self.get(read, options)).collect();
        stream::iter(each).buffered(MAX_GETS).try_collect().await
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        if table.options().buckets.is_some() {
            return Ok(RowsRead {
                rows: RowSet::new(0),
                exhausted: true,
                ..RowsRead::default()
            });
        }
        self.inner.get_statics(table, partition, options).await
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        match self.store.bucketed(table)? {
            Some(bucketed) => self.inner.token_ranges(bucketed.pieced.table(), pieces).await,
            None => self.inner.token_ranges(table, pieces).await,
        }
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let Some(bucketed) = self.store.bucketed(table)? else {
            return self.inner.scan(table, range, after, limit, options).await;
        };
        let scan = Scan {
            snapshot: self,
            bucketed: &bucketed,
            range,
            options,
        };
        scan.rows(after, limit).await
    }

    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let Some(bucketed) = self.store.bucketed(table)? else {
            let inner = &self.inner;
            return inner.scan_partitions(table, range, after, limit, options).await;
        };
        let scan = Scan {
            snapshot: self,
            bucketed: &bucketed,
            range,
            options,
        };
        scan.partitions(after, limit).await
    }

    async fn estimate(&self, slice: &Slice, options: &ReadOptions) -> Result<RowEstimate, StoreError> {
        match self.store.bucketed(&slice.table)? {
            Some(bucketed) => self.estimating(&bucketed, slice, options).rows().await,
            None => self.inner.estimate(slice, options).await,
        }
    }

    async fn row_at(
        &self,
        slice: &Slice,
        rank: u64,
        options: &ReadOptions,
    ) -> Result<Option<Cells>, StoreError> {
        match self.store.bucketed(&slice.table)? {
            Some(bucketed) => self.estimating(&bucketed, slice, options).row_at(rank).await,
            None => self.inner.row_at(slice, rank, options).await,
        }
    }
}

impl Bucketed {
    /// Returns the slice of bucket 0, which has all rows of a partition that was never split.
    pub(super) fn first_slice(&self, slice: &Slice) -> Slice {
        Slice {
            table: Arc::clone(self.pieced.table()),
            partition: bucket_partition(&slice.partition, Bucket(0)),
            ..slice.clone()
        }
    }

    /// Returns the slice of a bucket restricted to the first of the bucket's shards.
    pub(super) fn first_shard(&self, slice: &Slice) -> Slice {
        shards::in_shard(&self.pieced, slice, Shard(0))
    }
}

impl BucketedStore {
    /// Describes the read of a slice from its first buckets, as far as this process knows them.
    pub(super) fn described(&self, bucketed: &Bucketed, slice: &Slice, options: &ReadOptions) -> Vec<String> {
        let slices = self.known_slices(bucketed, slice);
        let slices = slices.unwrap_or_else(|| vec![bucketed.first_slice(slice)]);
        let described = slices.iter().flat_map(|slice| {
            let slice = bucketed.first_shard(slice);
            self.inner.describe_slice(&slice, options)
        });
        let others = bucketed.pieced.shards.count() - 1;
        let described = described.map(|text| match others {
            0 => text,
            _ => format!("{text} (and in parallel in each of {others} other shards)"),
        });
        described.collect()
    }

    fn known_slices(&self, bucketed: &Bucketed, slice: &Slice) -> Option<Vec<Slice>> {
        let pieced = &bucketed.pieced;
        let place = Place::new(pieced, slice.partition.clone()).ok()?;
        let span = pieced.span(&slice.from, &slice.to).ok()??;
        let is_backward = slice.direction == ReadDirection::Backward;
        let seek = Seek::of_span(&span, slice.direction);
        let copy = self.shared.pieces.get()?.copies.last(&place.id, &seek)?;
        let known = copy.directory();
        let pieces = known.spans().filter_map(|(of, piece)| {
            let common = of.common(&span)?;
            let bucket = piece.roles.read;
            Some(recto_protocol::buckets::Slice { bucket, span: common })
        });
        let mut pieces: Vec<_> = pieces.collect();
        if is_backward {
            pieces.reverse();
        }
        let slices = pieces.iter().take(MAX_DESCRIBED);
        slices
            .map(|piece| pieced.slice_of(slice, piece, slice.limit).ok())
            .collect()
    }
}

//! Repair of faults of buckets, in transactions.

use std::sync::Arc;

use recto_model::Cells;
use recto_protocol::buckets::{Bucket, Directory, Key, Protocol, Span};
use recto_store::{Cas, Operation, PartitionWrite, PointRead, ReadOptions, RowsRead, Snapshot, Stamp};

use super::Transacted;
use super::moving::stored;
use crate::copying::{put_of, whole_row};
use crate::error::Result;
use crate::limits::MAX_STEP_TIME;
use crate::notices::Notice;
use crate::place::Place;
use crate::tables::{Tables, mutation};

impl Transacted {
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn now_micros(&self) -> i64 {
        self.environment.now_micros()
    }

    pub(crate) fn monotonic_nanos(&self) -> u64 {
        self.environment.monotonic_nanos()
    }

    /// Returns whether any bucket was ever split in this store.
    pub(crate) async fn has_directories(&self) -> Result<bool> {
        self.is_there().await
    }

    /// Returns the complete stored range map of a partition.
    pub(crate) async fn whole_directory(&self, snapshot: &dyn Snapshot, place: &Place) -> Result<Directory> {
        let whole = self
            .read_whole(snapshot, place, self.deadline(MAX_STEP_TIME))
            .await?;
        Ok(Directory {
            pieces: whole.all().cloned().collect(),
            ..whole.shared()
        })
    }

    /// Marks in bucket 0 that the partition exists.
    pub(crate) async fn mark(&self, place: &Arc<Place>) -> Result<()> {
        // The timestamp must exceed that of the null.
        let stamp = Stamp(self.newest().0.saturating_add(1));
        let mark = place.pieced.mark_root(&place.partition, stamp);
        self.put_right(place, Vec::new(), vec![mark]).await.map(drop)
    }

    /// Applies writes while no other task writes to the partition or splits it. The range map is read again afterwards.
    /// Returns whether the writes were applied. They are not applied if a condition does not hold.
    pub(crate) async fn put_right(
        &self,
        place: &Arc<Place>,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
    ) -> Result<bool> {
        self.make().await?;
        let deadline = self.deadline(MAX_STEP_TIME);
        let mut alone = self.alone(place, deadline).await?;
        // The cached range map may differ from the stored one, since the stored one needs a repair.
        self.known.forget(&place.id);
        self.commit_as_is(&mut alone, place, conditional, plain, deadline)
            .await
    }

    /// Moves a misplaced row to its right bucket, unless the right bucket has the row with the same or a newer
    /// timestamp. Deletes it in the wrong bucket. If the row is below the retention bound, only deletes it.
    pub(crate) async fn take_home(
        &self,
        place: &Arc<Place>,
        bucket: Bucket,
        key: &Key,
        clustering: &Cells,
    ) -> Result<()> {
        self.make().await?;
        self.make_bucket_of(place, key).await?;
        let deadline = self.deadline(MAX_STEP_TIME);
        let mut alone = self.alone(place, deadline).await?;
        self.known.forget(&place.id);
        let whole = self.entry(place, deadline).await?.whole;
        let is_below = whole.shared().floor.is_some_and(|floor| floor.hides(key));
        // A time bucket has no rows of other intervals.
        let start = place.pieced.times.as_ref().map(|times| times.bucket_of(key));
        let start = start.transpose()?.map(|bucket| bucket.start);
        let is_its = |span: &Span| start.as_ref().is_none_or(|start| span.start == *start);
        let home = whole.piece_at(key).filter(|(span, _)| is_its(span));
        let home = match home.map(|(_, piece)| piece.roles.read) {
            _ if is_below => None,
            Some(home) if home != bucket => Some(home),
            Some(_) | None => return Ok(()),
        };
        let table = stored(&*self.store, &place.pieced.table).await?;
        let options = ReadOptions {
            timeout: self.request_time(deadline)?,
            stamps: true,
            ..ReadOptions::default()
        };
        let read = |of: Bucket| PointRead {
            table: Arc::clone(&table),
            partition: place.bucket_partition(of),
            clustering: clustering.clone(),
        };
        let snapshot = self.store.snapshot()?;
        let astray = snapshot.get(&read(bucket), &options).await?;
        let Some(row) = astray.rows.iter().next() else {
            return Ok(());
        };
        let stamp = stamp_of(&astray);
        let write = |of: Bucket, mutation| PartitionWrite {
            table: Arc::clone(&table),
            partition: place.bucket_partition(of),
            mutations: vec![mutation],
        };
        let delete = Operation::DeleteRow {
            clustering: clustering.clone(),
        };
        if let Some(home) = home {
            let (clustering, cells) = whole_row(&table, row, stamp)?;
            let ends = astray.ends_in_seconds.first().copied().flatten();
            // Use the row's own timestamp first. If a deletion of former content hides the row there, use a newer
            // timestamp.
            for at in [stamp, Stamp(self.newest().0.saturating_add(1))] {
                let there = self.store.snapshot()?.get(&read(home), &options).await?;
                if !there.rows.is_empty() && stamp_of(&there) >= stamp {
                    break;
                }
                let put = write(home, put_of(clustering.clone(), cells.clone(), at, ends));
                let as_it_is = self.tables.only_if(place, whole.version, Vec::new());
                let conditional = vec![as_it_is];
                self.commit_as_is(&mut alone, place, conditional, vec![put], deadline)
                    .await?;
            }
            if self
                .store
                .snapshot()?
                .get(&read(home), &options)
                .await?
                .rows
                .is_empty()
            {
                return Ok(());
            }
        }
        // The timestamp of the deletion also covers nulls that are newer than the timestamp that was read.
        let plain = vec![write(bucket, mutation(delete, self.newest().max(stamp), None))];
        let as_it_is = self.tables.only_if(place, whole.version, Vec::new());
        let conditional = vec![as_it_is];
        let is_done = self
            .commit_as_is(&mut alone, place, conditional, plain, deadline)
            .await?;
        if let Some(home) = home.filter(|_| is_done) {
            self.notices.add(place, Notice::Grown(home), key);
        }
        Ok(())
    }
}

fn stamp_of(read: &RowsRead) -> Stamp {
    Stamp(read.stamps.first().copied().unwrap_or_default())
}

//! Reads in a fixed snapshot, by the range maps as of the snapshot.

use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{RowSet, Slice};
use recto_protocol::buckets::{Bucket, Directory, Key, Span};
use recto_store::{BucketsRead, PointRead, ReadOptions, RowsRead, StoreError};

use super::tables::Bucketed;
use crate::place::Place;
use crate::tables::bucket_partition;
use crate::transacted::{Moment, Seek, Transacted, rest_of, seek_of};

/// Reads of a table in a snapshot.
pub(super) struct Pages<'p> {
    pub(super) engine: &'p Transacted,
    pub(super) moment: &'p Moment,
    pub(super) bucketed: &'p Bucketed,
    pub(super) options: &'p ReadOptions,
}

/// Read of a slice under way.
struct Way<'w> {
    bucketed: &'w Bucketed,
    slice: &'w Slice,
    /// Part of the slice that is not read yet. `None`: the read is complete.
    rest: Option<Span>,
    read: Option<RowsRead>,
    buckets: BucketsRead,
    options: &'w ReadOptions,
}

impl Pages<'_> {
    /// Returns the rows of a slice from all of its buckets.
    pub(super) async fn slice(&self, slice: &Slice) -> Result<RowsRead, StoreError> {
        let place = Place::new(&self.bucketed.pieced, slice.partition.clone())?;
        let mut way = self.way(slice)?;
        while let Some(seek) = way.seek() {
            let (window, reads) = self.directory(&place, &seek).await?;
            way.buckets.directory_reads += reads;
            while let Some(asked) = way.next(&window)? {
                let options = way.options_left();
                let read = self.moment.snapshot().slice(&asked, &options).await?;
                way.take(read);
            }
        }
        Ok(way.done())
    }

    /// Returns the rows of a slice as [`slice`](Self::slice) does, if that is possible without waiting.
    pub(super) fn slice_now(&self, slice: &Slice) -> Option<Result<RowsRead, StoreError>> {
        let place = match Place::new(&self.bucketed.pieced, slice.partition.clone()) {
            Ok(place) => place,
            Err(error) => return Some(Err(error.into())),
        };
        let mut way = match self.way(slice) {
            Ok(way) => way,
            Err(error) => return Some(Err(error)),
        };
        while let Some(seek) = way.seek() {
            let window = self.engine.directory_now(self.moment, &place, &seek)?;
            loop {
                let asked = match way.next(&window) {
                    Ok(Some(asked)) => asked,
                    Ok(None) => break,
                    Err(error) => return Some(Err(error)),
                };
                let options = way.options_left();
                match self.moment.snapshot().slice_now(&asked, &options)? {
                    Ok(read) => way.take(read),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
        Some(Ok(way.done()))
    }

    fn way<'w>(&'w self, slice: &'w Slice) -> Result<Way<'w>, StoreError> {
        Ok(Way {
            bucketed: self.bucketed,
            slice,
            rest: self.bucketed.pieced.span(&slice.from, &slice.to)?,
            read: None,
            buckets: BucketsRead::default(),
            options: self.options,
        })
    }

    /// Returns one row by its key.
    pub(super) async fn row(&self, read: &PointRead) -> Result<RowsRead, StoreError> {
        let place = Place::new(&self.bucketed.pieced, read.partition.clone())?;
        let key = place.key(&read.clustering)?;
        let (bucket, directory_reads) = self.bucket_of(&place, key).await?;
        let Some(bucket) = bucket else {
            return Ok(self.nothing());
        };
        let read = PointRead {
            table: Arc::clone(self.bucketed.pieced.table()),
            partition: bucket_partition(&read.partition, bucket),
            clustering: read.clustering.clone(),
        };
        let options = self.bucketed.pieced.read_by(self.options);
        let mut found = self.moment.snapshot().get(&read, &options).await?;
        found.buckets = BucketsRead {
            asked: vec![bucket.0],
            directory_reads,
        };
        Ok(self.bucketed.shown(found))
    }

    /// Returns the range map, from the cache or by a read, and the number of reads.
    async fn directory(&self, place: &Place, seek: &Seek) -> Result<(Arc<Directory>, u32), StoreError> {
        if let Some(known) = self.engine.directory_now(self.moment, place, seek) {
            return Ok((known, 0));
        }
        let time = self.options.timeout;
        Ok((self.engine.directory(self.moment, place, seek, time).await?, 1))
    }

    /// Returns the bucket of a key, and the number of reads of the range map.
    async fn bucket_of(&self, place: &Place, key: Key) -> Result<(Option<Bucket>, u32), StoreError> {
        let seek = Seek::At(key.clone());
        let (window, reads) = self.directory(place, &seek).await?;
        let mut end = key.clone();
        end.push(0);
        let span = Span {
            start: key,
            end: Some(end),
        };
        let slice = window.first_slice(&span, false);
        Ok((slice.map(|slice| slice.bucket), reads))
    }

    fn nothing(&self) -> RowsRead {
        nothing(self.bucketed)
    }
}

impl Way<'_> {
    /// Returns the window that contains the next rows to read, or `None` if the read is complete.
    fn seek(&self) -> Option<Seek> {
        self.rest.as_ref().map(|rest| seek_of(rest, self.slice.direction))
    }

    /// Returns the next slice to read in a window, or `None` if another window is needed or the read is complete.
    fn next(&mut self, window: &Directory) -> Result<Option<Slice>, StoreError> {
        let Some(rest) = &self.rest else {
            return Ok(None);
        };
        let is_backward = self.slice.direction == ReadDirection::Backward;
        let Some(piece) = window.first_slice(rest, is_backward) else {
            self.rest = if is_backward {
                window.rest_before(rest)
            } else {
                window.rest(rest)
            };
            return Ok(None);
        };
        let limit = self.slice.limit - self.read.as_ref().map_or(0, |read| read.rows.len() as u32);
        let asked = self.bucketed.pieced.slice_of(self.slice, &piece, limit)?;
        self.buckets.asked.push(piece.bucket.0);
        let rest = self.rest.take();
        self.rest = rest.and_then(|rest| rest_of(rest, piece.span, self.slice.direction));
        Ok(Some(asked))
    }

    fn options_left(&self) -> ReadOptions {
        let bytes = self.read.as_ref().map_or(0, |read| read.bytes);
        ReadOptions {
            max_bytes: self.options.max_bytes.saturating_sub(bytes).max(1),
            ..self.bucketed.pieced.read_by(self.options)
        }
    }

    /// Appends the rows that were read.
    fn take(&mut self, more: RowsRead) {
        let all = match self.read.take() {
            None => more,
            Some(mut read) => {
                more.rows.iter().for_each(|row| read.rows.push_row(row));
                read.exhausted = more.exhausted;
                read.bytes += more.bytes;
                read.stamps.extend(more.stamps);
                read.ends_in_seconds.extend(more.ends_in_seconds);
                read
            }
        };
        let is_full = all.rows.len() as u32 >= self.slice.limit
            || (all.bytes >= self.options.max_bytes && !all.rows.is_empty());
        if is_full || !all.exhausted {
            self.rest = None;
        }
        self.read = Some(RowsRead {
            exhausted: all.exhausted && !is_full,
            ..all
        });
    }

    fn done(self) -> RowsRead {
        let read = match self.read {
            Some(read) => self.bucketed.shown(read),
            None => nothing(self.bucketed),
        };
        RowsRead {
            buckets: self.buckets,
            ..read
        }
    }
}

fn nothing(bucketed: &Bucketed) -> RowsRead {
    RowsRead {
        rows: RowSet::new(bucketed.logical.columns().len()),
        exhausted: true,
        ..RowsRead::default()
    }
}

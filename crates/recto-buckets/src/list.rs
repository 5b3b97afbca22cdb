//! List of buckets for the operator of a store: their edges, their content, and the progress of their
//! splits.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Cells, Table};
use recto_protocol::buckets::{Bucket, Directory, Figures, Key, Piece, Roles, Span};
use recto_store::{ReadOptions, ScanPosition, Snapshot, StoreError, TokenRange};

pub use crate::directory::Seek;
use crate::error::Result;
use crate::limits::{
    MAX_LIST_SCANS, MAX_LISTED_AT_ONCE, MAX_LISTED_PARTITIONS, MAX_LISTED_PIECES, MAX_PIECES_AT_ONCE,
    MAX_STEP_TIME, MAX_SUMMED_PIECES,
};
use crate::place::{Deadline, Partition};
use crate::tables::{BucketSize, PiecedTable};

/// Progress of the split of a key range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No split of the key range is under way.
    AtRest,
    /// Deletions go to the old bucket and the new bucket. Other writes and reads use only the old
    /// bucket.
    Announced,
    /// All writes go to the old bucket and the new bucket, and existing rows are copied to the new
    /// one. Reads use the old bucket.
    Copying,
    /// All writes still go to the old bucket and the new bucket. Reads use the new bucket.
    Switched,
    /// Reads and writes use the new bucket. The old bucket is removed later.
    Left,
}

impl Stage {
    fn of(roles: &Roles) -> Self {
        if roles.next_read().is_some() {
            Self::Copying
        } else if !roles.deletes.is_empty() {
            Self::Announced
        } else if !roles.writes.is_empty() {
            Self::Switched
        } else if !roles.old.is_empty() {
            Self::Left
        } else {
            Self::AtRest
        }
    }
}

/// Key range between two edges of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedPiece {
    /// Edge at which the key range begins: its first key, encoded, or a prefix of that key.
    pub edge: Key,
    /// First cells of the clustering key at which the key range begins. Empty at the start of the partition.
    pub start: Cells,
    /// First cells of the key before which the key range ends. `None` at the end of the partition.
    pub end: Option<Cells>,
    /// Bucket in which reads find the rows of the key range.
    pub bucket: Bucket,
    /// Progress of the split of the key range.
    pub stage: Stage,
    /// During a split: the bucket to which the rows are copied, or from which they came.
    pub other: Option<Bucket>,
    /// True if the whole key range is below the retention bound.
    pub is_below_floor: bool,
    /// Estimated number of rows and bytes of the key range.
    pub figures: Figures,
    /// Estimated number of rows and bytes that a split or a join has in other buckets: copies of rows, or rows that are
    /// deleted an hour later.
    pub leftover: Figures,
}

/// Content of a key range, estimated from samples.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Content {
    /// Content of the bucket that is read.
    pub(crate) figures: Figures,
    /// Content of all other buckets of the key range.
    pub(crate) leftover: Figures,
}

/// Consecutive key ranges of a partition, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// Key ranges: the requested number, or fewer if the partition has fewer.
    pub pieces: Vec<ListedPiece>,
    /// Edge at which the previous key ranges end. `None`: the listing begins with the first key
    /// range of the partition.
    pub before: Option<Key>,
    /// Edge at which the next key ranges begin. `None`: the listing ends with the last key range of
    /// the partition.
    pub behind: Option<Key>,
}

/// Summary of the buckets of a partition, for the operator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Number of buckets from which the partition is read.
    pub buckets: u64,
    /// Estimated number of rows and bytes of all buckets together.
    pub figures: Figures,
    /// Estimated content that splits and joins have in other buckets.
    pub leftover: Figures,
    /// Estimated content of the largest bucket.
    pub largest: Figures,
    /// Number of buckets that exceed their maximum size.
    pub too_large: u64,
    /// True if a split of a key range is under way.
    pub is_being_cut: bool,
    /// True if the figures include every bucket. False in a partition with very many buckets: then they
    /// include only the first buckets.
    pub is_whole: bool,
}

/// List of partitions whose rows are kept in buckets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partitions {
    /// Keys of the partitions, each with its summary.
    pub partitions: Vec<(Cells, Summary)>,
    /// Position from which the next list continues. `None`: no partitions follow.
    pub next: Option<PartitionsPosition>,
}

/// Position in a list of partitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionsPosition {
    /// Position of the scan of the store. `None`: its beginning.
    pub after: Option<ScanPosition>,
    /// Number of partitions to skip after the position `after`.
    pub skipped: u32,
}

impl Listing {
    /// Returns the index of the key range that contains a key, or `None` if no key range of the listing contains it.
    pub fn position(&self, key: &[u8]) -> Option<usize> {
        if self
            .behind
            .as_ref()
            .is_some_and(|behind| key >= behind.as_slice())
        {
            return None;
        }
        let begun = self.pieces.partition_point(|piece| piece.edge.as_slice() <= key);
        begun.checked_sub(1)
    }

    /// Appends another listing. Keeps at most the first `most` key ranges.
    pub(crate) fn followed_by(mut self, behind: Self, most: usize) -> Self {
        self.pieces.extend(behind.pieces);
        self.behind = match self.pieces.get(most) {
            Some(first) => Some(first.edge.clone()),
            None => behind.behind,
        };
        self.pieces.truncate(most);
        self
    }
}

/// Key ranges for one listing, selected from several windows (parts) of a range map.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) pieces: Vec<(Span, Piece)>,
    pub(crate) before: Option<Key>,
    pub(crate) behind: Option<Key>,
    floor: Option<recto_protocol::buckets::Floor>,
}

impl Chosen {
    /// Adds the requested key ranges of a window (part of a range map), up to `most` key ranges in
    /// all. Returns the next window to read, if more key ranges are needed.
    pub(crate) fn take(&mut self, window: &Directory, seek: &Seek, most: usize) -> Option<Seek> {
        let room = most.saturating_sub(self.pieces.len());
        let is_first = self.pieces.is_empty();
        let mut there: Vec<(Span, Piece)> = window
            .spans()
            .map(|(span, piece)| (span, piece.clone()))
            .collect();
        let begins_before = |edge: &Key| there.partition_point(|(span, _)| span.start < *edge);
        self.floor.clone_from(&window.floor);
        match seek {
            Seek::At(key) => {
                let has = there.partition_point(|(span, _)| span.start <= *key);
                there.drain(..has.saturating_sub(1));
                there.truncate(room);
                if is_first {
                    self.before = edge_before(&there);
                }
                self.behind = there.last().and_then(|(span, _)| span.end.clone());
                self.pieces.append(&mut there);
                self.behind.clone().map(Seek::At)
            }
            Seek::Before(edge) => {
                there.truncate(edge.as_ref().map_or(there.len(), begins_before));
                there.drain(..there.len().saturating_sub(room));
                if is_first {
                    self.behind = there.last().and_then(|(span, _)| span.end.clone());
                }
                self.before = edge_before(&there);
                there.append(&mut self.pieces);
                self.pieces = there;
                self.before.clone().map(|edge| Seek::Before(Some(edge)))
            }
        }
        .filter(|_| self.pieces.len() < most)
    }

    /// Returns the listing. `contents` has the content of each key range, in the same order.
    pub(crate) fn listed(self, pieced: &PiecedTable, contents: Vec<Content>) -> Result<Listing> {
        let floor = self.floor;
        let pieces = self.pieces.iter().zip(contents);
        let pieces = pieces.map(|((span, piece), content)| {
            let cells = |edge: &Key| pieced.bound(edge).map(|bound| bound.cells().clone());
            let roles = &piece.roles;
            Ok(ListedPiece {
                edge: span.start.clone(),
                start: cells(&span.start)?,
                end: span.end.as_ref().map(cells).transpose()?,
                bucket: roles.read,
                stage: Stage::of(roles),
                other: roles.further().max(),
                is_below_floor: floor.as_ref().is_some_and(|floor| floor.hides_all(span)),
                figures: content.figures,
                leftover: content.leftover,
            })
        });
        Ok(Listing {
            pieces: pieces.collect::<Result<_>>()?,
            before: self.before,
            behind: self.behind,
        })
    }
}

/// Returns keys of partitions. A scan may meet many deleted rows, so it may return fewer partitions than requested.
pub(crate) async fn partition_keys(
    snapshot: &dyn Snapshot,
    table: &Arc<Table>,
    mut position: PartitionsPosition,
    most: usize,
) -> std::result::Result<(Vec<Cells>, Option<PartitionsPosition>), StoreError> {
    let mut keys = Vec::new();
    for _ in 0..MAX_LIST_SCANS {
        let (range, options) = (TokenRange::whole(), ReadOptions::default());
        let limit = MAX_LISTED_PARTITIONS as u32;
        let read = snapshot
            .scan_partitions(table, &range, position.after.as_ref(), limit, &options)
            .await?;
        let room = most - keys.len();
        let met = read.rows.iter().skip(position.skipped as usize);
        let columns = table.partition().len();
        keys.extend(
            met.take(room)
                .map(|row| (0..columns).map(|column| row.get(column)).collect()),
        );
        let taken = position.skipped as usize + room;
        if read.rows.len() > taken {
            position.skipped = taken as u32;
            return Ok((keys, Some(position)));
        }
        let Some(next) = read.next else {
            return Ok((keys, None));
        };
        position = PartitionsPosition {
            after: Some(next),
            skipped: 0,
        };
        if keys.len() == most {
            break;
        }
    }
    Ok((keys, Some(position)))
}

/// Lists the buckets around the bucket that contains a key: about as many before that bucket as after it.
/// `list` lists at most a number of buckets from a position on.
pub(crate) async fn list_around<F, Listed>(
    key: Key,
    most: usize,
    list: F,
) -> std::result::Result<Listing, StoreError>
where
    F: Fn(Seek, usize) -> Listed,
    Listed: Future<Output = std::result::Result<Listing, StoreError>>,
{
    let most = most.clamp(1, MAX_LISTED_PIECES);
    let behind = list(Seek::At(key), most).await?;
    // If few buckets follow the key, list more buckets before the key.
    let wanted = most - behind.pieces.len().min(most - most / 2);
    let Some(edge) = behind.before.clone().filter(|_| wanted > 0) else {
        return Ok(behind);
    };
    let before = list(Seek::Before(Some(edge)), wanted).await?;
    Ok(before.followed_by(behind, most))
}

/// Lists partitions of a table, at most [`MAX_LISTED_PARTITIONS`], each with the summary that `summarize` returns.
pub(crate) async fn list_summaries<F, Summarized>(
    snapshot: &dyn Snapshot,
    table: &Arc<Table>,
    position: PartitionsPosition,
    most: usize,
    summarize: F,
) -> std::result::Result<Partitions, StoreError>
where
    F: Fn(Cells) -> Summarized,
    Summarized: Future<Output = std::result::Result<(Cells, Summary), StoreError>>,
{
    let most = most.clamp(1, MAX_LISTED_PARTITIONS);
    let (keys, next) = partition_keys(snapshot, table, position, most).await?;
    let summaries: Vec<_> = keys.into_iter().map(summarize).collect();
    let partitions = stream::iter(summaries).buffered(MAX_LISTED_AT_ONCE).try_collect();
    Ok(Partitions {
        partitions: partitions.await?,
        next,
    })
}

fn edge_before(pieces: &[(Span, Piece)]) -> Option<Key> {
    let (first, _) = pieces.first()?;
    (!first.start.is_empty()).then(|| first.start.clone())
}

impl BucketSize {
    /// Returns whether a bucket with the content `figures` exceeds its maximum size.
    pub fn is_exceeded(self, figures: Figures) -> bool {
        match self {
            Self::Bytes(most) => figures.bytes > most,
            Self::Rows(most) => figures.rows > most,
        }
    }
}

impl Summary {
    /// Returns a summary with all counts 0, to which buckets are added.
    pub(crate) fn new() -> Self {
        Self {
            is_whole: true,
            ..Self::default()
        }
    }

    /// Adds key ranges. The first ones have the content `contents`. Adjacent key ranges that are read from one bucket
    /// count as one bucket. `last` is the bucket of the previous key range.
    pub(crate) fn add(
        &mut self,
        pieces: &[(Span, Piece)],
        contents: &[Content],
        last: &mut Option<(Bucket, Figures)>,
        size: BucketSize,
    ) {
        self.is_whole &= pieces.len() == contents.len();
        let known = contents
            .iter()
            .copied()
            .chain(std::iter::repeat(Content::default()));
        for ((_, piece), content) in pieces.iter().zip(known) {
            self.is_being_cut |= !piece.roles.is_at_rest();
            let (bucket, figures) = (piece.roles.read, content.figures);
            self.figures = self.figures.plus(figures);
            self.leftover = self.leftover.plus(content.leftover);
            let before = last
                .take()
                .filter(|(of, _)| *of == bucket)
                .map(|(_, before)| before);
            let whole = before.unwrap_or_default().plus(figures);
            self.buckets += u64::from(before.is_none());
            let was_too_large = before.is_some_and(|before| size.is_exceeded(before));
            self.too_large += u64::from(size.is_exceeded(whole) && !was_too_large);
            if whole.bytes >= self.largest.bytes {
                self.largest = whole;
            }
            *last = Some((bucket, whole));
        }
    }
}

impl Partition {
    /// Lists key ranges of the partition from `seek` on, at most [`MAX_LISTED_PIECES`]. Their
    /// content is estimated from sampled rows.
    ///
    /// # Errors
    /// The range map or the samples cannot be read in time, or are damaged.
    pub async fn list(&self, seek: Seek, most: usize) -> Result<Listing> {
        let deadline = self.pieces.deadline(MAX_STEP_TIME);
        let most = most.clamp(1, MAX_LISTED_PIECES);
        let (mut chosen, mut next) = (Chosen::default(), Some(seek));
        while let Some(seek) = next {
            let window = self.sought(&seek, deadline).await?;
            next = chosen.take(&window, &seek, most);
        }
        let contents = self.contents(&chosen.pieces, deadline).await?;
        chosen.listed(&self.place.pieced, contents)
    }

    /// Summarizes the buckets of the partition. `size` is the maximum size of a bucket. Reads
    /// samples of the first [`MAX_SUMMED_PIECES`] key ranges, and only counts further key ranges.
    ///
    /// # Errors
    /// As for [`list`](Self::list).
    pub async fn summary(&self, size: BucketSize) -> Result<Summary> {
        let deadline = self.pieces.deadline(MAX_STEP_TIME);
        let (mut summary, mut last, mut looked) = (Summary::new(), None, 0);
        let mut next = Some(Seek::At(Key::new()));
        while let Some(seek) = next {
            let window = self.sought(&seek, deadline).await?;
            let mut chosen = Chosen::default();
            next = chosen.take(&window, &seek, usize::MAX);
            let room = MAX_SUMMED_PIECES.saturating_sub(looked).min(chosen.pieces.len());
            looked += room;
            let contents = self.contents(&chosen.pieces[..room], deadline).await?;
            summary.add(&chosen.pieces, &contents, &mut last, size);
        }
        Ok(summary)
    }

    async fn sought(&self, seek: &Seek, deadline: Deadline) -> Result<Directory> {
        self.pieces
            .read_directory(&self.place, seek, false, deadline)
            .await
    }

    /// Returns the content of key ranges, estimated from their samples.
    async fn contents(&self, pieces: &[(Span, Piece)], deadline: Deadline) -> Result<Vec<Content>> {
        let looks = pieces.iter().map(|(span, piece)| async move {
            let mut content = Content {
                figures: self.figures(span, piece, piece.roles.read, deadline).await?,
                ..Content::default()
            };
            for bucket in piece.roles.further() {
                let other = self.figures(span, piece, bucket, deadline).await?;
                content.leftover = content.leftover.plus(other);
            }
            Ok(content)
        });
        let looks: Vec<_> = looks.collect();
        stream::iter(looks)
            .buffered(MAX_PIECES_AT_ONCE)
            .try_collect()
            .await
    }

    async fn figures(
        &self,
        span: &Span,
        piece: &Piece,
        bucket: Bucket,
        deadline: Deadline,
    ) -> Result<Figures> {
        let samples = self.pieces.samples(&self.place, bucket, span, deadline).await?;
        // The range map no longer has the sampling of an old bucket. It differs only in the mean size of a row.
        Ok(piece.sampling.estimate(samples.iter().map(|dated| &dated.sample)))
    }
}

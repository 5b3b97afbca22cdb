//! Buckets as who looks after a store sees them: where each begins, how much it holds, and how far a cut of it is.

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::Cells;
use recto_protocol::buckets::{Bucket, Directory, Figures, Key, Piece, Roles, Span};
use recto_store::PartitionCount;

pub use crate::directory::Seek;
use crate::error::Result;
use crate::limits::{MAX_LISTED_PIECES, MAX_PIECES_AT_ONCE, MAX_STEP_TIME, MAX_SUMMED_PIECES};
use crate::place::{Deadline, Partition};
use crate::tables::{BucketSize, PiecedTable};

/// How far the cut of a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is being done.
    AtRest,
    /// A new bucket takes deletions.
    Announced,
    /// It takes all writes, and what is there is copied to it.
    Copying,
    /// It is read, and the former one still takes writes.
    Switched,
    /// The former one was left, and is cleared later.
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

/// What lies between two edges of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedPiece {
    /// Its first key, encoded, or an edge before that.
    pub edge: Key,
    /// The first cells of the clustering key that it begins at: none where the partition begins.
    pub start: Cells,
    /// Those of the key that it ends before; `None`: where the partition ends.
    pub end: Option<Cells>,
    /// Where it is read.
    pub bucket: Bucket,
    /// How far its cut is.
    pub stage: Stage,
    /// Where it goes to, or came from, while that is so.
    pub other: Option<Bucket>,
    /// Whether all of it is below what is kept.
    pub is_below_floor: bool,
    /// What it holds.
    pub figures: Figures,
}

/// Pieces of a partition, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// As many as were asked for, if there are so many.
    pub pieces: Vec<ListedPiece>,
    /// The edge that those before them end at; none: these are the first.
    pub before: Option<Key>,
    /// The edge that those behind them begin at; none: these are the last.
    pub behind: Option<Key>,
}

/// A partition as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// How many buckets it is read from.
    pub buckets: u64,
    /// What they hold together.
    pub figures: Figures,
    /// What the largest of them holds.
    pub largest: Figures,
    /// How many are larger than they should be.
    pub too_large: u64,
    /// Whether a cut is under way.
    pub is_being_cut: bool,
    /// Whether each bucket was asked how much it holds: of very many the first ones are.
    pub is_whole: bool,
}

impl Listing {
    /// Which of these pieces has a key; none: none of them.
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

    /// Both together, so many at most: the last ones are left out.
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

/// Pieces that were chosen from windows of a directory.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) pieces: Vec<(Span, Piece)>,
    pub(crate) before: Option<Key>,
    pub(crate) behind: Option<Key>,
    floor: Option<recto_protocol::buckets::Floor>,
}

impl Chosen {
    /// Takes what is wanted of the window that was sought, up to so many in all; what is to be sought next, if more is wanted.
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

    /// With what each holds, in the same order.
    pub(crate) fn listed(self, pieced: &PiecedTable, figures: Vec<Figures>) -> Result<Listing> {
        let floor = self.floor;
        let pieces = self.pieces.iter().zip(figures);
        let pieces = pieces.map(|((span, piece), figures)| {
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
                figures,
            })
        });
        Ok(Listing {
            pieces: pieces.collect::<Result<_>>()?,
            before: self.before,
            behind: self.behind,
        })
    }
}

fn edge_before(pieces: &[(Span, Piece)]) -> Option<Key> {
    let (first, _) = pieces.first()?;
    (!first.start.is_empty()).then(|| first.start.clone())
}

impl BucketSize {
    /// Whether what holds so much is larger than it should be.
    pub fn is_exceeded(self, figures: Figures) -> bool {
        let count = PartitionCount {
            rows: figures.rows,
            bytes: figures.bytes,
        };
        self.of(count) > self.most()
    }
}

impl Summary {
    /// Of nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            is_whole: true,
            ..Self::default()
        }
    }

    /// Adds pieces, of which the first ones have these figures. What lies side by side in one bucket is of one bucket: `last` is the
    /// one that the pieces before were of.
    pub(crate) fn add(
        &mut self,
        pieces: &[(Span, Piece)],
        figures: &[Figures],
        last: &mut Option<(Bucket, Figures)>,
        size: BucketSize,
    ) {
        self.is_whole &= pieces.len() == figures.len();
        let known = figures.iter().copied().map(Some).chain(std::iter::repeat(None));
        for ((_, piece), figures) in pieces.iter().zip(known) {
            self.is_being_cut |= !piece.roles.is_at_rest();
            let (bucket, figures) = (piece.roles.read, figures.unwrap_or_default());
            self.figures = self.figures.plus(figures);
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
    /// Pieces from where it is sought on, [`MAX_LISTED_PIECES`] at most; what each holds by its samples.
    ///
    /// # Errors
    /// The directory, or samples, cannot be read in time, or are damaged.
    pub async fn list(&self, seek: Seek, most: usize) -> Result<Listing> {
        let deadline = self.pieces.deadline(MAX_STEP_TIME);
        let most = most.clamp(1, MAX_LISTED_PIECES);
        let (mut chosen, mut next) = (Chosen::default(), Some(seek));
        while let Some(seek) = next {
            let window = self.sought(&seek, deadline).await?;
            next = chosen.take(&window, &seek, most);
        }
        let figures = self.figures(&chosen.pieces, deadline).await?;
        chosen.listed(&self.place.pieced, figures)
    }

    /// The partition as a whole, whose buckets should be of this size at most: of very many the first [`MAX_SUMMED_PIECES`] are looked
    /// at, and the others counted.
    ///
    /// # Errors
    /// As [`list`](Self::list).
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
            let figures = self.figures(&chosen.pieces[..room], deadline).await?;
            summary.add(&chosen.pieces, &figures, &mut last, size);
        }
        Ok(summary)
    }

    async fn sought(&self, seek: &Seek, deadline: Deadline) -> Result<Directory> {
        self.pieces
            .read_directory(&self.place, seek, false, deadline)
            .await
    }

    /// What pieces hold by their samples.
    async fn figures(&self, pieces: &[(Span, Piece)], deadline: Deadline) -> Result<Vec<Figures>> {
        let looks = pieces.iter().map(|(span, piece)| async move {
            let (bucket, sampling) = (piece.roles.read, piece.sampling);
            let samples = self.pieces.samples(&self.place, bucket, span, deadline).await?;
            Ok(sampling.estimate(samples.iter().map(|dated| &dated.sample)))
        });
        let looks: Vec<_> = looks.collect();
        stream::iter(looks)
            .buffered(MAX_PIECES_AT_ONCE)
            .try_collect()
            .await
    }
}

//! Complete range map in memory. It is stored in windows, so that a split replaces only a few key ranges.

use std::sync::Arc;

use recto_protocol::buckets::limits::MAX_WINDOW_PIECES;
use recto_protocol::buckets::{Bucket, Directory, Floor, Key, Piece, Span, Unrouted, Version};

use crate::directory::Seek;

/// Approximate number of bytes of a key range, apart from its edge.
const PIECE_BYTES: usize = 256;

/// Consecutive keys that are in one bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch<'w> {
    pub(crate) bucket: Bucket,
    /// Least key.
    pub(crate) start: &'w [u8],
    /// End of the keys. `None`: all further keys.
    end: Option<&'w [u8]>,
}

impl Stretch<'_> {
    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.is_none_or(|end| key < end)
    }
}

/// Complete range map.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    /// Version of the range map, as given by the first window.
    pub(super) version: Version,
    pub(super) next_bucket: Bucket,
    floor: Option<Floor>,
    /// Windows, at least one. Each window ends at the start of the next one. The version in an unchanged window is the
    /// version at its last change.
    windows: Vec<Arc<Directory>>,
}

impl Whole {
    /// Returns the range map of these consecutive windows, or `None` if there are no windows.
    pub(super) fn new(windows: Vec<Arc<Directory>>) -> Option<Self> {
        let first = windows.first()?;
        Some(Self {
            version: first.version,
            next_bucket: first.next_bucket,
            floor: first.floor.clone(),
            windows,
        })
    }

    /// Returns the number of key ranges.
    pub(super) fn pieces(&self) -> usize {
        self.windows.iter().map(|window| window.pieces.len()).sum()
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let pieces = self.windows.iter().flat_map(|window| &window.pieces);
        pieces.map(|piece| PIECE_BYTES + piece.start.len()).sum()
    }

    /// Returns the window that matches `seek`.
    pub(super) fn window(&self, seek: &Seek) -> Arc<Directory> {
        let wanted = match seek {
            Seek::At(key) => self.index(key),
            Seek::Before(None) => self.windows.len() - 1,
            Seek::Before(Some(edge)) => {
                let begins = |window: &Arc<Directory>| start(window) < edge.as_slice();
                self.windows.partition_point(begins).saturating_sub(1)
            }
        };
        Arc::clone(&self.windows[wanted])
    }

    /// Returns the index of the window that contains a key.
    fn index(&self, key: &[u8]) -> usize {
        let begun = self.windows.partition_point(|window| start(window) <= key);
        begun.saturating_sub(1)
    }

    /// Returns the range of keys that are in the same bucket as this key, regardless of the retention bound.
    pub(super) fn stretch_of(&self, key: &[u8]) -> Result<Stretch<'_>, Unrouted> {
        let window = &self.windows[self.index(key)];
        let begun = window
            .pieces
            .partition_point(|piece| piece.start.as_slice() <= key);
        let piece = begun.checked_sub(1).and_then(|index| window.pieces.get(index));
        let piece = piece.ok_or(Unrouted::OutsideWindow)?;
        let next = window.pieces.get(begun).map(|piece| &piece.start);
        Ok(Stretch {
            bucket: piece.roles.read,
            start: piece.start.as_slice(),
            end: next.or(window.end.as_ref()).map(Vec::as_slice),
        })
    }

    /// Returns whether a key is below the retention bound.
    pub(super) fn hides(&self, key: &[u8]) -> bool {
        self.floor.as_ref().is_some_and(|floor| floor.hides(key))
    }

    /// Returns the key range that contains a key, and its span.
    pub(super) fn piece_at(&self, key: &[u8]) -> Option<(Span, Piece)> {
        let window = &self.windows[self.index(key)];
        let index = window
            .pieces
            .partition_point(|piece| piece.start.as_slice() <= key);
        let piece = window.pieces.get(index.checked_sub(1)?)?;
        let next = window.pieces.get(index).map(|piece| piece.start.clone());
        let span = Span {
            start: piece.start.clone(),
            end: next.or_else(|| window.end.clone()),
        };
        Some((span, piece.clone()))
    }

    /// Returns the last key range that begins before an edge, and its span.
    pub(super) fn piece_before(&self, edge: &[u8]) -> Option<(Span, Piece)> {
        let window = self.window(&Seek::Before(Some(edge.to_vec())));
        let index = window
            .pieces
            .partition_point(|piece| piece.start.as_slice() < edge);
        let start = &window.pieces.get(index.checked_sub(1)?)?.start;
        self.piece_at(start)
    }

    /// Returns the start of the key range of a bucket. `key` is a key that the bucket had, and may have no longer.
    pub(super) fn start_of(&self, bucket: Bucket, key: &[u8]) -> Option<Key> {
        let has = |piece: &&Piece| piece.roles.read == bucket;
        let near = self.windows[self.index(key)].pieces.iter().find(has);
        near.or_else(|| self.all().find(has))
            .map(|piece| piece.start.clone())
    }

    /// Returns all key ranges in their order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Piece> {
        self.windows.iter().flat_map(|window| &window.pieces)
    }

    /// Returns whether the retention bound `to` hides more than the current one.
    pub(super) fn is_raised_by(&self, to: &Floor) -> bool {
        self.floor
            .as_ref()
            .is_none_or(|floor| floor.is_lower_than(&to.at))
    }

    /// Returns all key ranges with their spans.
    pub(super) fn spans(&self) -> Vec<(Span, Piece)> {
        let spans = self.windows.iter().flat_map(|window| window.spans());
        spans.map(|(span, piece)| (span, piece.clone())).collect()
    }

    /// Returns the range map with `put` in place of the key ranges from `from` to before `to`.
    pub(super) fn with(&self, shared: &Directory, from: &[u8], to: Option<&Key>, put: Vec<Piece>) -> Self {
        let first = self.index(from);
        let last = match to {
            // This window contains the last replaced key range. The key range that begins at `to` stays.
            Some(to) => self
                .windows
                .partition_point(|window| start(window) < to.as_slice()),
            None => self.windows.len(),
        };
        let last = last.max(first + 1);
        let old = self.windows[first..last].iter().flat_map(|window| &window.pieces);
        let is_before = |piece: &&Piece| piece.start.as_slice() < from;
        let is_behind = |piece: &&Piece| to.is_some_and(|to| piece.start >= *to);
        let mut pieces: Vec<Piece> = old.clone().filter(is_before).cloned().collect();
        pieces.extend(put);
        pieces.extend(old.filter(is_behind).cloned());
        let end = self.windows[last - 1].end.clone();
        let mut windows = self.windows[..first].to_vec();
        windows.extend(parted(shared, pieces, end));
        windows.extend_from_slice(&self.windows[last..]);
        Self {
            version: shared.version,
            next_bucket: shared.next_bucket,
            floor: shared.floor.clone(),
            windows,
        }
    }

    /// Returns the common part of the range map, as a range map without key ranges.
    pub(super) fn shared(&self) -> Directory {
        Directory {
            version: self.version,
            next_bucket: self.next_bucket,
            floor: self.floor.clone(),
            pieces: Vec::new(),
            end: None,
            ..Directory::clone(&self.windows[0])
        }
    }
}

fn start(window: &Directory) -> &[u8] {
    window.pieces.first().map_or(&[], |piece| &piece.start)
}

/// Divides key ranges into windows of at most the maximum length.
fn parted(shared: &Directory, pieces: Vec<Piece>, end: Option<Key>) -> Vec<Arc<Directory>> {
    let count = pieces.len().div_ceil(MAX_WINDOW_PIECES).max(1);
    let each = pieces.len().div_ceil(count).max(1);
    let ends: Vec<_> = pieces
        .chunks(each)
        .skip(1)
        .map(|some| some[0].start.clone())
        .collect();
    let ends = ends.into_iter().map(Some).chain([end]);
    let parts = pieces.chunks(each).zip(ends);
    let window = |(pieces, end): (&[Piece], Option<Key>)| {
        Arc::new(Directory {
            pieces: pieces.to_vec(),
            end,
            ..shared.clone()
        })
    };
    parts.map(window).collect()
}

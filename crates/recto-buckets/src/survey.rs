//! Estimates the number of rows of a span (a range of keys) from samples, and finds the row of a given
//! rank. The cost does not depend on the number of key ranges.
//!
//! The range map records the content of each key range at the time of its split. Module `sums` has sums of
//! this recorded content. An estimate reads the samples of these key ranges:
//!
//! - the key ranges at both ends of the partition
//! - key ranges that are requested only in part, or whose content is unknown
//! - a fixed number of randomly drawn other key ranges
//!
//! The drawn samples show how far the recorded content is off. The estimate corrects the recorded content
//! by this error ([`corrected`]).

use std::sync::Arc;

use futures::future::join;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::{
    Directory, Drawn, Figures, Floor, Key, Piece, Several, Span, Version, corrected,
};

use crate::directory::Seek;
use crate::error::Result;
use crate::limits::{MAX_CERTAIN_PIECES, MAX_DRAWN_PIECES, MAX_EXACT_PIECES, MAX_PIECES_AT_ONCE};
use crate::place::{Deadline, Partition, PieceStore, Place};
use crate::samples::Dated;
use crate::sums::{Block, several};

/// Minimum number of blocks (sums of several key ranges) for which an estimate uses blocks. If a
/// span (range of keys) has fewer, its key ranges are listed one by one.
const FEWEST_BLOCKS: usize = 3;

/// Key range, or the requested part of a key range, whose sampled rows were read.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) span: Span,
    pub(crate) piece: Piece,
    pub(crate) samples: Vec<Dated>,
    figures: Figures,
}

/// Estimate of the number of rows of a span (range of keys).
#[derive(Debug, Clone, Default)]
pub(crate) struct Survey {
    parts: Vec<Part>,
    /// Estimated content of the whole span (range of keys).
    pub(crate) figures: Figures,
    /// Estimated number of rows of key ranges whose samples were not read: the number for each recorded
    /// row, and the number for each key range.
    scale: (f64, f64),
}

/// Part of a span (range of keys). The variants differ in how much is known about the content of
/// the part.
#[derive(Debug, Clone)]
enum Part {
    /// Key range whose sampled rows were read. Its number of rows is estimated from them.
    Looked(Look),
    /// Key range of which only the entry in the range map was read. Its number of rows is estimated
    /// from the content that the entry records, corrected by the error that the samples of other
    /// key ranges show.
    Listed(Span, Piece),
    /// Several key ranges of which only the sum of their recorded contents was read. Their number
    /// of rows is estimated in the same way.
    Summed(Span, Several),
}

/// Key range of the range map, or the part of it that the estimate needs.
#[derive(Debug)]
struct Opened {
    span: Span,
    piece: Piece,
    is_whole: bool,
}

/// Key ranges and sums that cover a span (range of keys).
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Version of the range map.
    version: Version,
    left: Vec<Opened>,
    /// Blocks that are completely in the span (range of keys). With each block, the edge at which
    /// it ends.
    blocks: Vec<(Block, Key)>,
    right: Vec<Opened>,
}

impl Layout {
    /// Returns whether the span (range of keys) has so few key ranges that reading all of its rows
    /// may be as fast.
    pub(crate) fn is_short(&self) -> bool {
        self.blocks.is_empty() && self.left.len() <= MAX_EXACT_PIECES
    }
}

/// Key ranges from which an estimate draws: the listed key ranges by index, followed by the key ranges of
/// the blocks.
struct Pool {
    listed: Vec<usize>,
    pieces: u64,
}

/// Random numbers that depend only on the partition and the version of its range map (`SplitMix64`). A list at rest
/// therefore has the same estimate on each page.
struct Random(u64);

impl Random {
    fn of(place: &Place, version: Version) -> Self {
        let (table, partition) = &*place.id;
        Self(hash(table.as_bytes()) ^ hash(partition).rotate_left(32) ^ version)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `most`.
    fn below(&mut self, most: u64) -> u64 {
        let drawn = u128::from(self.bits());
        u64::try_from((drawn * u128::from(most)) >> 64).unwrap_or(0)
    }
}

/// Draws key ranges. If all key ranges are listed, draws no key range twice.
fn draws(pool: &Pool, blocks: &[(Block, Key)], random: &mut Random) -> Vec<Draw> {
    if blocks.is_empty() {
        let mut left = pool.listed.clone();
        let count = left.len().min(MAX_DRAWN_PIECES);
        for at in 0..count {
            let other = at + random.below((left.len() - at) as u64) as usize;
            left.swap(at, other);
        }
        left.truncate(count);
        return left.into_iter().map(Draw::Listed).collect();
    }
    let mut draws = Vec::with_capacity(MAX_DRAWN_PIECES);
    for _ in 0..MAX_DRAWN_PIECES {
        let mut at = random.below(pool.pieces);
        if let Some(listed) = usize::try_from(at).ok().and_then(|at| pool.listed.get(at)) {
            draws.push(Draw::Listed(*listed));
            continue;
        }
        at -= pool.listed.len() as u64;
        for (index, (block, _)) in blocks.iter().enumerate() {
            if at < block.summed.pieces {
                draws.push(Draw::Summed(index, random.bits()));
                break;
            }
            at -= block.summed.pieces;
        }
    }
    draws
}

/// Randomly drawn key range.
#[derive(Debug, Clone, Copy)]
enum Draw {
    Listed(usize),
    /// Index of a block (sum of several key ranges), and a random number that selects one of its
    /// key ranges.
    Summed(usize, u64),
}

impl PieceStore {
    /// Returns the key ranges and sums that cover a span (range of keys) of a partition, or `None`
    /// if the whole span is below the retention bound.
    ///
    /// # Errors
    /// The range map or the sums cannot be read in time, or are damaged.
    pub(crate) async fn layout(
        &self,
        place: &Arc<Place>,
        span: &Span,
        deadline: Deadline,
    ) -> Result<Option<Layout>> {
        let partition = Partition {
            pieces: self.clone(),
            place: Arc::clone(place),
        };
        let mut window = partition.take(&Seek::At(span.start.clone()), deadline).await?;
        let Some(kept) = kept(window.directory().floor.as_ref(), span) else {
            return Ok(None);
        };
        if window.directory().piece_of(&kept.start).is_none() {
            window = partition.take(&Seek::At(kept.start.clone()), deadline).await?;
        }
        let version = window.directory().version;
        let layout = self.laid_out(place, &kept, window.directory(), deadline).await?;
        Ok(Some(Layout { version, ..layout }))
    }

    /// Returns the estimate for a span (range of keys) that `layout` covers.
    ///
    /// # Errors
    /// Samples or key ranges cannot be read in time, or are damaged.
    pub(crate) async fn survey(&self, place: &Place, layout: Layout, deadline: Deadline) -> Result<Survey> {
        let (left, blocks) = (layout.left.len(), layout.blocks);
        let mut listed: Vec<Opened> = layout.left;
        listed.extend(layout.right);
        let certain = certain(&listed);
        let looks = certain.iter().map(|at| self.look(place, &listed[*at], deadline));
        let looks: Vec<_> = looks.collect();
        let looked = stream::iter(looks).buffered(MAX_PIECES_AT_ONCE);
        let mut looked: Vec<(usize, Look)> = certain
            .iter()
            .copied()
            .zip(looked.try_collect::<Vec<_>>().await?)
            .collect();
        let sure = looked
            .iter()
            .fold(Figures::default(), |all, (_, look)| all.plus(look.figures));
        let pool = Pool::new(&listed, &certain, &blocks);
        let draws = draws(&pool, &blocks, &mut Random::of(place, layout.version));
        let (drawn, found) = self.drawn_from(place, &draws, &listed, &blocks, deadline).await?;
        let recorded = pool.recorded(&listed, &blocks);
        let others = corrected(recorded, &drawn, blocks.is_empty());
        looked.extend(found);
        let scale = (
            others.rows as f64 / (recorded.recorded.rows as f64).max(1.0),
            others.rows as f64 / (recorded.pieces as f64).max(1.0),
        );
        Ok(Survey {
            parts: parts(listed, left, blocks, looked),
            figures: sure.plus(others),
            scale,
        })
    }

    async fn laid_out(
        &self,
        place: &Place,
        span: &Span,
        window: &Directory,
        deadline: Deadline,
    ) -> Result<Layout> {
        let has_all = |window: &Directory| match (&window.end, &span.end) {
            (None, _) => true,
            (Some(end), Some(of_span)) => of_span <= end,
            (Some(_), None) => false,
        };
        if has_all(window) {
            return Ok(Layout {
                left: opened(&spans(window), span),
                ..Layout::default()
            });
        }
        // Read no sums of time buckets: they have none, because new time buckets may appear between
        // others at any time.
        let is_by_time = place.pieced.times.is_some();
        let mut blocks = if is_by_time {
            Vec::new()
        } else {
            self.blocks(place, span, deadline).await?
        };
        if blocks.len() < FEWEST_BLOCKS && !is_by_time {
            // A split that was interrupted may not have written its block sums, so write them now.
            self.sum_up(place, std::slice::from_ref(&span.start)).await?;
            blocks = self.blocks(place, span, deadline).await?;
        }
        let starts: Vec<Key> = blocks.iter().skip(1).map(|block| block.start.clone()).collect();
        let Some((first, last)) = starts
            .first()
            .zip(starts.last())
            .filter(|_| blocks.len() >= FEWEST_BLOCKS)
        else {
            let left = self.listed(place, window, span, deadline).await?;
            return Ok(Layout {
                left: opened(&left, span),
                ..Layout::default()
            });
        };
        let to_first = Span {
            start: span.start.clone(),
            end: Some(first.clone()),
        };
        let from_last = Span {
            start: last.clone(),
            end: span.end.clone(),
        };
        let (left, right) = join(
            self.listed(place, window, &to_first, deadline),
            self.pieces_from(place, &from_last, deadline),
        )
        .await;
        let count = blocks.len();
        let between = blocks.into_iter().skip(1).take(count - FEWEST_BLOCKS + 1);
        Ok(Layout {
            left: opened(&left?, &to_first),
            blocks: between.zip(starts.iter().skip(1).cloned()).collect(),
            right: opened(&right?, &from_last),
            ..Layout::default()
        })
    }

    /// Returns the key ranges of a span (range of keys). `window` is the window of the range map
    /// that has the first key ranges.
    async fn listed(
        &self,
        place: &Place,
        window: &Directory,
        span: &Span,
        deadline: Deadline,
    ) -> Result<Vec<(Span, Piece)>> {
        let mut pieces = spans(window);
        if let Some(start) = window.end.clone()
            && span.end.as_ref().is_none_or(|end| start < *end)
        {
            let end = span.end.clone();
            pieces.extend(self.pieces_from(place, &Span { start, end }, deadline).await?);
        }
        Ok(pieces)
    }

    async fn look(&self, place: &Place, opened: &Opened, deadline: Deadline) -> Result<Look> {
        self.look_at(place, opened.span.clone(), opened.piece.clone(), deadline)
            .await
    }

    async fn look_at(&self, place: &Place, span: Span, piece: Piece, deadline: Deadline) -> Result<Look> {
        let samples = self.samples(place, piece.roles.read, &span, deadline).await?;
        let figures = piece.sampling.estimate(samples.iter().map(|dated| &dated.sample));
        Ok(Look {
            span,
            piece,
            samples,
            figures,
        })
    }

    /// Reads the samples of drawn key ranges. Returns the error of their recorded content, and the samples
    /// of those key ranges that were listed.
    async fn drawn_from(
        &self,
        place: &Place,
        draws: &[Draw],
        listed: &[Opened],
        blocks: &[(Block, Key)],
        deadline: Deadline,
    ) -> Result<(Vec<Drawn>, Vec<(usize, Look)>)> {
        let looks = draws.iter().map(|draw| async move {
            match *draw {
                Draw::Listed(at) => {
                    let look = self.look(place, &listed[at], deadline).await?;
                    let drawn = Drawn::one(look.piece.figures.unwrap_or_default(), look.figures);
                    Ok::<_, crate::PiecesError>((drawn, Some((at, look))))
                }
                Draw::Summed(at, number) => {
                    let (block, end) = &blocks[at];
                    let drawn = self.drawn_of(place, block, end, number, deadline).await?;
                    Ok((drawn, None))
                }
            }
        });
        let looks: Vec<_> = looks.collect();
        let found: Vec<_> = stream::iter(looks)
            .buffered(MAX_PIECES_AT_ONCE)
            .try_collect()
            .await?;
        let (drawn, looked): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        Ok((drawn, looked.into_iter().flatten().collect()))
    }

    /// Reads the sampled rows of one key range of a block (sum of several key ranges). The current
    /// range map determines the key ranges of the block.
    async fn drawn_of(
        &self,
        place: &Place,
        block: &Block,
        end: &Key,
        number: u64,
        deadline: Deadline,
    ) -> Result<Drawn> {
        let within = Span {
            start: block.start.clone(),
            end: Some(end.clone()),
        };
        let mut pieces = self.pieces_from(place, &within, deadline).await?;
        let now = several(pieces.iter().map(|(_, piece)| piece));
        let at = (u128::from(number) * pieces.len() as u128) >> 64;
        let (span, piece) = pieces.swap_remove(usize::try_from(at).unwrap_or(0));
        let recorded = piece.figures.unwrap_or_default();
        let look = self.look_at(place, span, piece, deadline).await?;
        Ok(Drawn::of(block.summed, now, recorded, look.figures))
    }

    /// Returns the key range that contains the row of rank `rank`, and the number of preceding rows within this key
    /// range, both estimated. Returns `None` if there are fewer rows.
    pub(crate) async fn piece_at(
        &self,
        place: &Place,
        survey: Survey,
        is_backward: bool,
        rank: u64,
        deadline: Deadline,
    ) -> Result<Option<(Look, u64)>> {
        let mut left = rank as f64;
        let Some((part, rows)) = nth(&survey, survey.parts.clone(), is_backward, &mut left) else {
            return Ok(None);
        };
        let part = match part {
            Part::Summed(span, _) => {
                let pieces = self.pieces_from(place, &span, deadline).await?;
                let pieces: Vec<Part> = pieces
                    .into_iter()
                    .map(|(span, piece)| Part::Listed(span, piece))
                    .collect();
                let all: f64 = pieces.iter().map(|piece| survey.rows_of(piece)).sum();
                // The rank fits the estimate for the block as a whole. Scale it to the sum of the estimates
                // of the key ranges of the block.
                left *= all / rows.max(1.0);
                match nth(&survey, pieces, is_backward, &mut left) {
                    Some((part, _)) => part,
                    None => return Ok(None),
                }
            }
            part => part,
        };
        let look = match part {
            Part::Looked(look) => look,
            Part::Listed(span, piece) => {
                let expected = survey.rows_of(&Part::Listed(span.clone(), piece.clone()));
                let look = self.look_at(place, span, piece, deadline).await?;
                left *= look.figures.rows as f64 / expected.max(1.0);
                look
            }
            Part::Summed(..) => return Ok(None),
        };
        Ok(Some((look, whole(left))))
    }
}

impl Survey {
    /// Returns the estimated number of rows of a part of the surveyed keys.
    fn rows_of(&self, part: &Part) -> f64 {
        let (for_each_row, for_each_piece) = self.scale;
        // If most recorded row counts are of little use, assume that all key ranges have the same
        // number of rows.
        let scaled = |several: Several| {
            if for_each_row > 0.0 && for_each_row < 4.0 {
                several.recorded.rows as f64 * for_each_row
            } else {
                several.pieces as f64 * for_each_piece
            }
        };
        match part {
            Part::Looked(look) => look.figures.rows as f64,
            Part::Listed(_, piece) => scaled(several(std::iter::once(piece))),
            Part::Summed(_, summed) => scaled(*summed),
        }
    }
}

impl Pool {
    fn new(listed: &[Opened], certain: &[usize], blocks: &[(Block, Key)]) -> Self {
        let listed: Vec<usize> = (0..listed.len()).filter(|at| !certain.contains(at)).collect();
        let summed: u64 = blocks.iter().map(|(block, _)| block.summed.pieces).sum();
        Self {
            pieces: listed.len() as u64 + summed,
            listed,
        }
    }

    fn recorded(&self, listed: &[Opened], blocks: &[(Block, Key)]) -> Several {
        let listed = several(self.listed.iter().map(|at| &listed[*at].piece));
        blocks.iter().fold(listed, |all, (block, _)| Several {
            pieces: all.pieces + block.summed.pieces,
            recorded: all.recorded.plus(block.summed.recorded),
        })
    }
}

/// Returns the indexes of the key ranges whose samples are read in any case:
///
/// - key ranges that are requested in part
/// - the first and the last key range of the partition, where new rows usually arrive
/// - key ranges without recorded content
fn certain(listed: &[Opened]) -> Vec<usize> {
    let is_end = |opened: &Opened| opened.span.start.is_empty() || opened.span.end.is_none();
    let is_unknown = |opened: &Opened| !opened.piece.roles.is_at_rest() || opened.piece.figures.is_none();
    let of = |is: &dyn Fn(&Opened) -> bool| -> Vec<usize> {
        (0..listed.len()).filter(|at| is(&listed[*at])).collect()
    };
    let mut certain = of(&|opened| !opened.is_whole || is_end(opened));
    certain.extend(of(&|opened| {
        opened.is_whole && !is_end(opened) && is_unknown(opened)
    }));
    certain.truncate(MAX_CERTAIN_PIECES);
    certain
}

fn spans(window: &Directory) -> Vec<(Span, Piece)> {
    window
        .spans()
        .map(|(span, piece)| (span, piece.clone()))
        .collect()
}

/// Returns the parts of key ranges within a span (range of keys).
fn opened(pieces: &[(Span, Piece)], span: &Span) -> Vec<Opened> {
    let opened = pieces.iter().filter_map(|(of, piece)| {
        let common = of.common(span)?;
        Some(Opened {
            is_whole: common == *of,
            span: common,
            piece: piece.clone(),
        })
    });
    opened.collect()
}

/// Returns the part of a span (range of keys) that is kept, or `None` if the whole span is below
/// the retention bound.
fn kept(floor: Option<&Floor>, span: &Span) -> Option<Span> {
    floor.map_or_else(|| Some(span.clone()), |floor| floor.kept_span().common(span))
}

/// Returns all parts of a span (range of keys) in their order. `looked` has the samples of the key
/// ranges that were read.
fn parts(
    listed: Vec<Opened>,
    left: usize,
    blocks: Vec<(Block, Key)>,
    looked: Vec<(usize, Look)>,
) -> Vec<Part> {
    let mut parts: Vec<Part> = listed
        .into_iter()
        .map(|opened| Part::Listed(opened.span, opened.piece))
        .collect();
    for (at, look) in looked {
        parts[at] = Part::Looked(look);
    }
    let right = parts.split_off(left);
    parts.extend(blocks.into_iter().map(|(block, end)| {
        let (start, end) = (block.start, Some(end));
        Part::Summed(Span { start, end }, block.summed)
    }));
    parts.extend(right);
    parts
}

/// Returns the part that contains the row of rank `left`, and the estimated number of rows of that
/// part. Subtracts the rows of earlier parts from `left`. If all parts together have fewer rows,
/// returns the last part.
fn nth(survey: &Survey, mut parts: Vec<Part>, is_backward: bool, left: &mut f64) -> Option<(Part, f64)> {
    if is_backward {
        parts.reverse();
    }
    let count = parts.len();
    for (at, part) in parts.into_iter().enumerate() {
        let rows = survey.rows_of(&part);
        if *left < rows || at + 1 == count {
            return Some((part, rows));
        }
        *left -= rows;
    }
    None
}

#[expect(clippy::cast_sign_loss, reason = "it is not negative")]
fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

//! Split policy: whether the samples of a bucket require a split, and where.

use recto_protocol::buckets::growing::FULL;
use recto_protocol::buckets::limits::{MAX_CUT_EDGES, MAX_EDGE_BYTES};
use recto_protocol::buckets::{
    Arrival, Bucket, Cut, Directory, Due, Figures, Growth, Key, Protocol, Sample, Sampling, Span, Stays,
    position_ahead,
};

use crate::limits::MAX_ARRIVALS;
use crate::samples::Dated;
use crate::tables::PiecedTable;

/// Split of a bucket that the split policy requests now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) cut: Cut,
    /// True if the partition is likely to be split again soon.
    pub(crate) is_hot: bool,
    /// True if the bucket is full, and is therefore split at its existing rows.
    pub(crate) is_full: bool,
}

/// Data about a bucket by which the split policy decides.
pub(crate) struct Bucketful<'b> {
    pub(crate) pieced: &'b PiecedTable,
    pub(crate) span: &'b Span,
    pub(crate) sampling: Sampling,
    /// Sampled rows of the bucket (the key, size and write time of each), in the order of their
    /// keys. From them, the policy estimates the size and the growth of the bucket.
    pub(crate) samples: &'b [Dated],
    /// Keys of all rows of the bucket, in their order. `None`: the keys were not counted, so the
    /// sampled rows decide.
    pub(crate) keys: Option<&'b [Key]>,
    pub(crate) now_ms: i64,
    pub(crate) growth: Growth,
}

/// Returns the span of the keys that are read from a bucket, and the sampling (chance that a row is
/// sampled) there. Returns `None` if no keys are read from the bucket, or if a part of the bucket
/// is being split.
pub(crate) fn span_of(directory: &Directory, bucket: Bucket) -> Option<(Span, Sampling)> {
    let mut found: Option<(Span, Sampling)> = None;
    for (span, piece) in directory.spans().filter(|(_, piece)| piece.roles.read == bucket) {
        if !piece.roles.is_at_rest() {
            return None;
        }
        match &mut found {
            Some((whole, _)) => whole.end = span.end,
            None => found = Some((span, piece.sampling)),
        }
    }
    found
}

/// Returns the growth of a bucket, estimated from its newest sampled rows, and the time that a
/// split takes.
pub(crate) fn growth_of(
    pieced: &PiecedTable,
    samples: &[Dated],
    sampling: Sampling,
    directory: &Directory,
    now_ms: i64,
    protocol: Protocol,
) -> Growth {
    let newest = newest(samples);
    let took_ms = newest.first().map_or(0, |first| {
        now_ms.max(newest.last().map_or(0, |last| last.at_ms())) - first.at_ms()
    });
    let came = newest.len().saturating_sub(1) as f64 * sampling.unit as f64;
    let waits_ms = directory.longest_ms + 2 * protocol.short_life_ms + 3 * protocol.standstill_ms;
    Growth {
        samples: pieced.samples,
        bytes_per_second: came * 1_000.0 / (took_ms.max(1) as f64),
        lead_seconds: waits_ms as f64 / 1_000.0,
    }
}

/// Returns the newest sampled rows (at most [`MAX_ARRIVALS`]) in the order of their arrival.
fn newest(samples: &[Dated]) -> Vec<&Dated> {
    let mut newest: Vec<_> = samples.iter().collect();
    newest.sort_by_key(|dated| dated.at_ms());
    newest.split_off(newest.len().saturating_sub(MAX_ARRIVALS))
}

/// Returns edges that divide the rows with the keys `keys` into parts of equal numbers of rows. A
/// part has about a quarter of `most`, the maximum number of rows in a bucket. A larger part could
/// have enough samples by chance to count as full.
fn edges_of(keys: &[Key], most: u64) -> Vec<Key> {
    let part = usize::try_from(most / 4).unwrap_or(usize::MAX).max(1);
    let parts = keys.len().div_ceil(part).clamp(2, MAX_CUT_EDGES + 1);
    let edges = (1..parts).filter_map(|number| keys.get(number * keys.len() / parts));
    edges.cloned().collect()
}

impl Bucketful<'_> {
    /// Returns the split that the sampled rows of the bucket require now, if any.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        let due = self.growth.due(self.sampling, self.samples.len());
        let (edges, stays) = match due {
            Due::No => return None,
            Due::Ahead => self.ahead()?,
            Due::Now => (self.edges(), Stays::First),
        };
        edges.first()?;
        let mut figures = self.figures(&edges);
        if due == Due::Ahead {
            // The split is made for rows that are about to arrive in the parts that do not stay, so
            // the content of those parts is unknown.
            let stays = match stays {
                Stays::First => 0,
                Stays::Last => edges.len(),
            };
            for (part, figures) in figures.iter_mut().enumerate() {
                *figures = figures.filter(|_| part == stays);
            }
        }
        let all = self.samples.iter().map(|dated| &dated.sample);
        Some(Wanted {
            is_hot: self.growth.is_hot(self.sampling),
            is_full: due == Due::Now,
            cut: Cut {
                stays,
                sampling: self.next_sampling(self.sampling.estimate(all)),
                figures,
                edges,
            },
        })
    }

    /// Returns the estimated content of each part between the edges `edges`, and of the parts
    /// before the first edge and after the last edge.
    fn figures(&self, edges: &[Key]) -> Vec<Option<Figures>> {
        let mut rest = self.samples;
        let mut take = |end: Option<&Key>| {
            let count = end.map_or(rest.len(), |end| {
                rest.partition_point(|dated| dated.sample.key < *end)
            });
            let (part, behind) = rest.split_at(count);
            rest = behind;
            Some(self.sampling.estimate(part.iter().map(|dated| &dated.sample)))
        };
        edges.iter().map(Some).chain([None]).map(&mut take).collect()
    }

    /// Returns the sampling (chance that a row is sampled) of the new buckets, on the assumption
    /// that their mean row size is that of the split bucket.
    fn next_sampling(&self, figures: Figures) -> Sampling {
        let mean = figures.bytes.checked_div(figures.rows);
        self.pieced.next_sampling(mean.unwrap_or(self.sampling.mean))
    }

    /// Returns the edges at which a full bucket is split: at counted keys if the keys were counted,
    /// else at sampled rows.
    fn edges(&self) -> Vec<Key> {
        let mut edges = if let Some((keys, rows)) = self.keys.zip(self.pieced.counted_rows()) {
            edges_of(keys, rows)
        } else {
            let samples: Vec<Sample> = self.samples.iter().map(|dated| dated.sample.clone()).collect();
            self.growth.quantiles(&samples)
        };
        edges.retain(|edge| self.is_inside(edge) && edge.len() <= MAX_EDGE_BYTES);
        edges.truncate(MAX_CUT_EDGES);
        edges
    }

    /// Returns the edge that the newest rows will have reached when a split is done, to split the bucket
    /// there in advance. Returns `None` unless the keys rise or fall with the time of arrival, and will
    /// stay within the bucket until it is full.
    fn ahead(&self) -> Option<(Vec<Key>, Stays)> {
        let newest = newest(self.samples);
        let arrival = |dated: &&Dated| {
            let position = self.pieced.position(&dated.sample.key)?;
            let at_ms = dated.at_ms();
            Some(Arrival { at_ms, position })
        };
        let arrivals: Option<Vec<_>> = newest.iter().map(arrival).collect();
        let arrivals = arrivals?;
        let since_ms = self.now_ms - arrivals.last()?.at_ms;
        let edge_after = |seconds: f64| {
            let ms = since_ms.max(0) + (seconds * 1_000.0) as i64;
            let edge = self.pieced.edge_at(position_ahead(&arrivals, ms)?)?;
            self.is_inside(&edge).then_some(edge)
        };
        let edge = edge_after(self.growth.lead_seconds)?;
        let room = FULL * f64::from(self.pieced.samples) - self.samples.len() as f64;
        let seconds = room.max(0.0) * self.sampling.unit as f64 / self.growth.bytes_per_second.max(1e-3);
        edge_after(seconds.max(self.growth.lead_seconds))?;
        let mut keys = self.samples.iter().map(|dated| &dated.sample.key);
        let stays = if keys.all(|key| *key < edge) {
            Stays::First
        } else if self.samples.iter().all(|dated| dated.sample.key >= edge) {
            Stays::Last
        } else {
            return None;
        };
        Some((vec![edge], stays))
    }

    fn is_inside(&self, edge: &Key) -> bool {
        self.span.start < *edge && self.span.has(edge)
    }
}

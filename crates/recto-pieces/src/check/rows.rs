//! Stage of the check for rows: checks all stored rows and their samples.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Bound, Cells};
use recto_protocol::buckets::{Bucket, Figures, Key, Shard, Span};
use recto_store::{ReadOptions, ScanRead, TokenRange};

use super::fault::{Fault, FaultKind, FaultOutcome};
use super::homes::Homes;
use super::judge::{SeenRow, counts};
use super::position::{Next, Open};
use super::{BucketCheck, CheckStep};
use crate::copying::{clustering_of, slice_of};
use crate::error::Result;
use crate::holding::bytes_of;
use crate::limits::{MAX_CHECKED_BYTES, MAX_LOOKS_AT_ONCE};
use crate::place::{PieceStore, Place};
use crate::samples::Dated;

/// Consecutive rows of one shard of a bucket that one step checks.
struct Run {
    place: Arc<Place>,
    partition: Cells,
    bucket: Bucket,
    shard: Shard,
    /// Key of the last row of the shard that an earlier step checked. `None`: no step has checked
    /// rows of the shard.
    from: Option<Key>,
    /// True if the check has read all rows of the shard.
    is_last: bool,
    rows: Vec<(Key, Cells, SeenRow)>,
    /// Number and bytes of the rows of the shard that earlier steps checked.
    before: Figures,
}

/// Result of the check of consecutive rows of one shard.
#[derive(Default)]
struct Looked {
    /// Keys whose row or sample has a suspected fault. True if the fault is a sample without a row.
    suspects: Vec<((Key, Cells), bool)>,
    /// Number and bytes of the rows of the shard that were checked so far, without misplaced rows.
    figures: Figures,
}

impl BucketCheck {
    pub(super) async fn rows(&mut self, rows: u32, step: &mut CheckStep) -> Result<Option<Next>> {
        let (open, after) = match self.position.after.take() {
            Some(next) => (next.open, Some(next.scan)),
            None => (None, None),
        };
        let table = Arc::clone(self.table());
        let read = self
            .ask(|snapshot, options| {
                let (table, after) = (Arc::clone(&table), after.clone());
                let options = ReadOptions {
                    max_bytes: MAX_CHECKED_BYTES,
                    ..options
                };
                async move {
                    let range = TokenRange::whole();
                    snapshot
                        .scan(&table, &range, after.as_ref(), rows, &options)
                        .await
                }
            })
            .await?;
        step.read = read.rows.len() as u64;
        let runs = self.runs(&read, open)?;
        step.rows = runs.iter().map(|run| run.rows.len() as u64).sum();
        step.buckets = runs.iter().filter(|run| run.from.is_none()).count() as u64;
        let looks = runs.iter().map(|run| self.looked_at(run));
        let looks: Vec<_> = looks.collect();
        let looks = stream::iter(looks).buffered(MAX_LOOKS_AT_ONCE);
        let looks: Vec<Looked> = looks.try_collect().await?;
        let mut open = None;
        for (run, looked) in runs.into_iter().zip(looks) {
            let last = run.rows.last().map(|(key, ..)| key.clone()).or(run.from.clone());
            for (key, is_sample) in looked.suspects {
                self.suspect(&run.place, (run.bucket, run.shard), key, is_sample);
            }
            if run.is_last {
                self.close(&run, looked.figures).await?;
            } else if let Some(last) = last {
                open = Some(Open {
                    partition: run.partition,
                    last,
                    rows: looked.figures.rows,
                    bytes: looked.figures.bytes,
                });
            }
        }
        Ok(read.next.map(|scan| Next { scan, open }))
    }

    /// Groups rows by shard of a bucket. If an earlier step read the rows of a shard only in part,
    /// that shard is the first group.
    fn runs(&self, read: &ScanRead, open: Option<Open>) -> Result<Vec<Run>> {
        let pieced = &self.bucketed.pieced;
        let keys = pieced.table.partition().len();
        let mut runs: Vec<Run> = Vec::new();
        if let Some(open) = open {
            let mut run = self.run_of(open.partition)?;
            run.from = Some(open.last);
            run.before.rows = open.rows;
            run.before.bytes = open.bytes;
            runs.push(run);
        }
        for (row, stamp) in read.rows.iter().zip(&read.stamps) {
            let partition: Cells = (0..keys).map(|column| row.get(column)).collect();
            // The store returns a partition without rows as one row of static cells, which has no
            // row to check.
            if row.get(keys).is_none() {
                continue;
            }
            if runs.last().is_none_or(|run| run.partition != partition) {
                runs.push(self.run_of(partition)?);
            }
            let clustering = clustering_of(&pieced.table, row);
            let seen = SeenRow::new(pieced, row, *stamp);
            if let Some(run) = runs.last_mut() {
                run.rows
                    .push((pieced.key(clustering.as_row())?, clustering, seen));
            }
        }
        let last = runs.len().saturating_sub(usize::from(read.next.is_some()));
        runs.iter_mut().take(last).for_each(|run| run.is_last = true);
        Ok(runs)
    }

    fn run_of(&self, cells: Cells) -> Result<Run> {
        let (partition, (bucket, shard)) = self.bucketed.pieced.parted(&cells);
        Ok(Run {
            place: Arc::new(Place::new(&self.bucketed.pieced, partition)?),
            partition: cells,
            bucket,
            shard,
            from: None,
            is_last: false,
            rows: Vec::new(),
            before: Figures::default(),
        })
    }

    /// Returns the suspected faults of rows and of their samples. If the cached range map suggests a
    /// fault, reads the range map and decides again.
    async fn looked_at(&self, run: &Run) -> Result<Looked> {
        let bound = |key: &Key| Bound::After(std::iter::once(Some(&key[..])).collect());
        let from = run.from.as_ref().map_or(Bound::start(), bound);
        let last = run.rows.last().map(|(key, ..)| key).or(run.from.as_ref());
        let to = last.filter(|_| !run.is_last).map_or(Bound::end(), bound);
        let samples = self
            .engine
            .samples_between(&run.place, run.bucket, (from, to), self.deadline())
            .await?;
        let mut looked = Looked::default();
        for is_fresh in [false, true] {
            let lies = (run.bucket, run.shard);
            let homes = Homes::of(&self.engine, &self.known, &run.place, lies, is_fresh);
            let Some(homes) = homes.await? else {
                return Ok(Looked::default());
            };
            looked = run.judged(&homes, &samples);
            if looked.suspects.is_empty() {
                break;
            }
        }
        Ok(looked)
    }

    /// Reports a bucket that is too large, after the check has read all rows of one of its shards.
    async fn close(&mut self, run: &Run, figures: Figures) -> Result<()> {
        let Some(figures) = self.of_all_shards(run, figures).await? else {
            return Ok(());
        };
        if !run.place.pieced.size.is_exceeded(figures) {
            return Ok(());
        }
        self.fault(Fault {
            kind: FaultKind::TooLarge,
            partition: run.place.partition.clone(),
            bucket: Some(run.bucket),
            clustering: None,
            detail: format!("{} rows, {} bytes", figures.rows, figures.bytes),
            outcome: FaultOutcome::Left,
        });
        Ok(())
    }

    /// Returns the content of all shards of a bucket that exceeds its maximum size. Returns `None`
    /// if the bucket does not exceed its maximum size, or was reported at another shard. `figures`
    /// is the content of the shard of `run`. The result is exact only as far as necessary to prove
    /// the excess.
    ///
    /// The shards of a bucket are not adjacent in the store's order, so a sum would require keeping
    /// the figures of all buckets. The function therefore adds up the shards only if the shard of
    /// `run` has more than its share. In a bucket that exceeds its maximum size, at least one shard
    /// has.
    async fn of_all_shards(&self, run: &Run, figures: Figures) -> Result<Option<Figures>> {
        let (size, shards) = (run.place.pieced.size, run.place.pieced.shards);
        let pieces = &self.engine;
        let has_its_share = |figures: Figures| {
            let times = |number: u64| number.saturating_mul(shards.count().into());
            size.is_exceeded(Figures {
                rows: times(figures.rows),
                bytes: times(figures.bytes),
                ..figures
            })
        };
        if !has_its_share(figures) {
            return Ok(None);
        }
        let mut all = figures;
        for shard in shards.all().filter(|shard| *shard != run.shard) {
            if size.is_exceeded(all) && shard > run.shard {
                break;
            }
            let lies = (run.bucket, shard);
            let Some(homes) = Homes::of(&self.engine, &self.known, &run.place, lies, false).await? else {
                return Ok(None);
            };
            let other = pieces.figures_in(&run.place, lies, &homes).await?;
            if has_its_share(other) && shard < run.shard {
                return Ok(None);
            }
            all = all.plus(other);
        }
        Ok(Some(all))
    }
}

impl PieceStore {
    /// Counts the rows of a shard of a bucket, without rows that belong elsewhere. Stops when the
    /// shard alone exceeds the maximum size of a bucket.
    async fn figures_in(&self, place: &Place, lies: (Bucket, Shard), homes: &Homes<'_>) -> Result<Figures> {
        let (mut slice, mut figures) = (slice_of(place, lies, &Span::all())?, Figures::default());
        loop {
            let read = self.read_rows(&slice).await?;
            for row in read.rows.iter() {
                let clustering = clustering_of(&place.pieced.table, row);
                if homes.home(&place.key(&clustering)?) == Some(lies) {
                    figures.rows += 1;
                    figures.bytes += bytes_of(&place.pieced, row);
                }
            }
            let last = read.rows.iter().next_back().filter(|_| !read.exhausted);
            match last.filter(|_| !place.pieced.size.is_exceeded(figures)) {
                Some(last) => slice.from = Bound::After(clustering_of(&place.pieced.table, last)),
                None => return Ok(figures),
            }
        }
    }
}

impl Run {
    fn judged(&self, homes: &Homes<'_>, samples: &[Dated]) -> Looked {
        let mut looked = Looked {
            figures: self.before,
            ..Looked::default()
        };
        let of_keys = samples.iter();
        // Leave out the samples of other shards of the bucket.
        let of_keys = of_keys.filter(|dated| homes.is_in_its_shard(&dated.sample.key));
        let mut of_keys: BTreeMap<&Key, &Dated> = of_keys.map(|dated| (&dated.sample.key, dated)).collect();
        for (key, clustering, row) in &self.rows {
            let sample = of_keys.remove(key);
            if homes.judge(key, Some(*row), sample).is_some() {
                looked.suspects.push(((key.clone(), clustering.clone()), false));
            }
            let is_read = homes.home(key) == Some((self.bucket, self.shard));
            looked.figures.rows += u64::from(is_read);
            looked.figures.bytes += if is_read { row.bytes } else { 0 };
        }
        for (key, sample) in of_keys.into_iter().filter(|(_, sample)| counts(sample)) {
            if homes.judge(key, None, Some(sample)).is_some() {
                let clustering = self.place.pieced.clustering_of_key(key);
                looked.suspects.push(((key.clone(), clustering), true));
            }
        }
        looked
    }
}

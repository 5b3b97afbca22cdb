//! Stage of the check for rows: compares each stored row with where a write of the row would go, and with its sample.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Bound, Cells};
use recto_protocol::buckets::{Bucket, Figures, Key, Shard, Span};
use recto_store::ScanRead;

use super::fault::{Fault, FaultKind, FaultOutcome};
use super::position::Open;
use super::routes::{Router, SeenRow, unless_corrupt};
use super::{BucketCheck, CheckStep, SuspectKind};
use crate::copying::{clustering_of, slice_of};
use crate::error::Result;
use crate::holding::bytes_of;
use crate::limits::{MAX_LOOKS_AT_ONCE, MAX_STEP_TIME};
use crate::place::{PieceStore, Place};
use crate::samples::Dated;

/// Consecutive rows of one shard of a bucket that one step checks.
struct Run {
    place: Arc<Place>,
    /// Partition key of the shard in the store.
    partition: Cells,
    lies: (Bucket, Shard),
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
    suspects: Vec<(SuspectKind, (Key, Cells))>,
    /// Number and bytes of the rows of the shard that were checked so far, without misplaced rows.
    figures: Figures,
}

impl BucketCheck {
    /// Checks rows. `open` is the shard of which an earlier step checked only some rows. Returns the shard of which
    /// this step checked only some rows.
    pub(super) async fn check_rows(
        &mut self,
        read: &ScanRead,
        open: Option<Open>,
        step: &mut CheckStep,
    ) -> Result<Option<Open>> {
        let runs = self.runs(read, open)?;
        step.rows = runs.iter().map(|run| run.rows.len() as u64).sum();
        step.buckets = runs.iter().filter(|run| run.from.is_none()).count() as u64;
        let looks: Vec<_> = runs.iter().map(|run| self.look_at(run)).collect();
        let looks = stream::iter(looks).buffered(MAX_LOOKS_AT_ONCE);
        let looks: Vec<Looked> = looks.try_collect().await?;
        let mut open = None;
        for (run, looked) in runs.into_iter().zip(looks) {
            for (kind, key) in looked.suspects {
                self.suspect(kind, &run.place, run.lies, key);
            }
            if run.is_last {
                self.report_if_too_large(&run, looked.figures).await?;
            } else if let Some(last) = run.last() {
                open = Some(Open {
                    last: last.clone(),
                    partition: run.partition,
                    rows: looked.figures.rows,
                    bytes: looked.figures.bytes,
                });
            }
        }
        Ok(open)
    }

    /// Groups rows by shard of a bucket. If an earlier step read the rows of a shard only in part,
    /// that shard is the first group.
    fn runs(&self, read: &ScanRead, open: Option<Open>) -> Result<Vec<Run>> {
        let pieced = &self.bucketed.pieced;
        let keys = pieced.table.partition().len();
        let mut runs: Vec<Run> = Vec::new();
        if let Some(open) = open {
            let before = Figures {
                rows: open.rows,
                bytes: open.bytes,
                ..Figures::default()
            };
            runs.push(Run {
                from: Some(open.last),
                before,
                ..self.run_of(open.partition)?
            });
        }
        for (row, stamp) in read.rows.iter().zip(&read.stamps) {
            // The store returns a partition without rows as one row of static cells, which has no
            // row to check.
            if row.get(keys).is_none() {
                continue;
            }
            let partition: Cells = (0..keys).map(|column| row.get(column)).collect();
            if runs.last().is_none_or(|run| run.partition != partition) {
                runs.push(self.run_of(partition)?);
            }
            let clustering = clustering_of(&pieced.table, row);
            let (key, seen) = (
                pieced.key(clustering.as_row())?,
                SeenRow::new(pieced, row, *stamp),
            );
            if let Some(run) = runs.last_mut() {
                run.rows.push((key, clustering, seen));
            }
        }
        let last = runs.len().saturating_sub(usize::from(read.next.is_some()));
        runs.iter_mut().take(last).for_each(|run| run.is_last = true);
        Ok(runs)
    }

    fn run_of(&self, cells: Cells) -> Result<Run> {
        let (partition, lies) = self.bucketed.pieced.parted(&cells);
        Ok(Run {
            place: self.place(partition)?,
            partition: cells,
            lies,
            from: None,
            is_last: false,
            rows: Vec::new(),
            before: Figures::default(),
        })
    }

    /// Returns the suspected faults of rows and of their samples.
    async fn look_at(&self, run: &Run) -> Result<Looked> {
        let bound = |key: &Key| Bound::After(std::iter::once(Some(&key[..])).collect());
        let from = run.from.as_ref().map_or(Bound::start(), bound);
        let to = run.last().filter(|_| !run.is_last).map_or(Bound::end(), bound);
        let (engine, deadline) = (&self.engine, self.engine.deadline(MAX_STEP_TIME));
        let samples = engine.samples_between(&run.place, run.lies.0, (from, to), deadline);
        let looked = run.judged(engine, &samples.await?).await;
        Ok(unless_corrupt(looked)?.unwrap_or_default())
    }

    /// Reports a bucket that is too large, after the check has read all rows of one of its shards. `figures` is the
    /// content of that shard.
    ///
    /// The shards of a bucket are not adjacent in the store's order, so a sum would require keeping
    /// the figures of all buckets. The function therefore adds up the shards only if this shard has more than its
    /// share. In a bucket that exceeds its maximum size, at least one shard has. The first of them reports the bucket.
    async fn report_if_too_large(&mut self, run: &Run, figures: Figures) -> Result<()> {
        let (size, shards) = (run.place.pieced.size, run.place.pieced.shards);
        let has_its_share = |figures: Figures| {
            let times = |number: u64| number.saturating_mul(shards.count().into());
            size.is_exceeded(Figures {
                rows: times(figures.rows),
                bytes: times(figures.bytes),
                ..figures
            })
        };
        if !has_its_share(figures) {
            return Ok(());
        }
        let mut all = figures;
        for shard in shards.all().filter(|shard| *shard != run.lies.1) {
            let other = self.engine.figures_in(&run.place, (run.lies.0, shard)).await;
            let Some(other) = unless_corrupt(other)? else {
                return Ok(());
            };
            if shard < run.lies.1 && has_its_share(other) {
                return Ok(());
            }
            all = all.plus(other);
        }
        if size.is_exceeded(all) {
            self.faults.push(Fault {
                bucket: Some(run.lies.0),
                detail: format!("{} rows, {} bytes", all.rows, all.bytes),
                ..Fault::of(&run.place, FaultKind::TooLarge, FaultOutcome::Left)
            });
        }
        Ok(())
    }
}

impl PieceStore {
    /// Counts the rows of a shard of a bucket, without rows that belong elsewhere. Stops when the
    /// shard alone exceeds the maximum size of a bucket.
    async fn figures_in(&self, place: &Arc<Place>, lies: (Bucket, Shard)) -> Result<Figures> {
        let mut router = Router::new(self, place, lies, false).await?;
        let (mut slice, mut figures) = (slice_of(place, lies, &Span::all())?, Figures::default());
        loop {
            let read = self.read_rows(&slice).await?;
            for row in read.rows.iter() {
                let clustering = clustering_of(&place.pieced.table, row);
                if router.route(&place.key(&clustering)?).await?.home == lies {
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
    /// Returns the key of the last row of the shard that was checked.
    fn last(&self) -> Option<&Key> {
        self.rows.last().map(|(key, ..)| key).or(self.from.as_ref())
    }

    async fn judged(&self, engine: &PieceStore, samples: &[Dated]) -> Result<Looked> {
        let (mut suspects, mut figures) = (Vec::new(), self.before);
        let mut router = Router::new(engine, &self.place, self.lies, false).await?;
        if router.lacks_entry && self.from.is_none() {
            suspects.push((SuspectKind::Entry, (Key::new(), Cells::new())));
        }
        let of_keys = samples.iter().map(|dated| (&dated.sample.key, dated));
        let mut of_keys: BTreeMap<_, _> = of_keys.collect();
        for (key, clustering, row) in &self.rows {
            let route = router.route(key).await?;
            if route.fault_of(key, Some(*row), of_keys.remove(key)).is_some() {
                suspects.push((SuspectKind::Row, (key.clone(), clustering.clone())));
            }
            let is_read = route.home == self.lies;
            figures.rows += u64::from(is_read);
            figures.bytes += if is_read { row.bytes } else { 0 };
        }
        // A sample in the shard of another row is no fault here: the bucket has the samples of all its shards.
        for (key, sample) in of_keys {
            if router
                .route(key)
                .await?
                .fault_of(key, None, Some(sample))
                .is_some()
            {
                let clustering = self.place.pieced.clustering_of_key(key);
                suspects.push((SuspectKind::Sample, (key.clone(), clustering)));
            }
        }
        Ok(Looked { suspects, figures })
    }
}

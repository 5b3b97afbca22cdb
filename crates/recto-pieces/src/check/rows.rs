//! The stage of rows: all rows as they lie, beside their samples.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_buckets::{Bucket, Directory, Figures, Key};
use recto_model::{Bound, Cells};
use recto_store::{ReadOptions, ScanRead, TokenRange};

use super::fault::{Fault, FaultKind, FaultOutcome};
use super::judge::{SeenRow, counts, judge};
use super::position::{Next, Open};
use super::{BucketCheck, CheckStep, Engine, parted};
use crate::copying::clustering_of;
use crate::error::Result;
use crate::limits::{MAX_CHECKED_BYTES, MAX_LOOKS_AT_ONCE};
use crate::place::Place;
use crate::samples::Dated;

/// Rows that lie side by side in a bucket.
struct Run {
    place: Arc<Place>,
    partition: Cells,
    bucket: Bucket,
    /// The key of the row before them that was looked at; none: they are the first ones.
    from: Option<Key>,
    /// Whether they are the last ones.
    is_last: bool,
    rows: Vec<(Key, Cells, SeenRow)>,
    /// What was counted before them.
    before: Figures,
}

/// What there is to say of some rows.
#[derive(Default)]
struct Looked {
    suspects: Vec<(Key, Cells)>,
    /// What the bucket has so far that is read there.
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
            for (key, clustering) in looked.suspects {
                self.suspect(&run.place, run.bucket, key, clustering);
            }
            if run.is_last {
                self.close(&run, looked.figures);
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

    /// Rows that were read, bucket by bucket. The one whose rows were read before is the first one.
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
            // One without rows has static cells.
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
        let (partition, bucket) = parted(&cells);
        Ok(Run {
            place: Arc::new(Place::new(&self.bucketed.pieced, partition)?),
            partition: cells,
            bucket,
            from: None,
            is_last: false,
            rows: Vec::new(),
            before: Figures::default(),
        })
    }

    /// What seems wrong among rows, and samples beside them: by what is known of the directory, and if something is by what is
    /// read of it now.
    async fn looked_at(&self, run: &Run) -> Result<Looked> {
        let samples = match &self.engine {
            Engine::Transacted(_) => None,
            Engine::Pieces(pieces) => {
                let bound = |key: &Key| Bound::After(std::iter::once(Some(&key[..])).collect());
                let from = run.from.as_ref().map_or(Bound::start(), bound);
                let last = run.rows.last().map(|(key, ..)| key).or(run.from.as_ref());
                let to = last.filter(|_| !run.is_last).map_or(Bound::end(), bound);
                let samples = pieces
                    .samples_between(&run.place, run.bucket, (from, to), self.deadline())
                    .await?;
                Some(samples)
            }
        };
        let mut looked = Looked::default();
        for is_fresh in [false, true] {
            let Some(directory) = self.known.of(&self.engine, &run.place, is_fresh).await? else {
                return Ok(Looked::default());
            };
            looked = run.judged(&directory, samples.as_deref());
            if looked.suspects.is_empty() {
                break;
            }
        }
        Ok(looked)
    }

    /// All rows of a bucket were read.
    fn close(&mut self, run: &Run, figures: Figures) {
        let size = run.place.pieced.size;
        if !size.is_exceeded(figures) {
            return;
        }
        self.fault(Fault {
            kind: FaultKind::TooLarge,
            partition: run.place.partition.clone(),
            bucket: Some(run.bucket),
            clustering: None,
            detail: format!("{} rows, {} bytes", figures.rows, figures.bytes),
            outcome: FaultOutcome::Left,
        });
    }
}

impl Run {
    fn judged(&self, directory: &Directory, samples: Option<&[Dated]>) -> Looked {
        let mut looked = Looked {
            figures: self.before,
            ..Looked::default()
        };
        let of_keys = samples.unwrap_or_default().iter();
        let mut of_keys: BTreeMap<&Key, &Dated> = of_keys.map(|dated| (&dated.sample.key, dated)).collect();
        for (key, clustering, row) in &self.rows {
            let sample = of_keys.remove(key);
            if judge(directory, self.bucket, key, Some(*row), sample, samples.is_some()).is_some() {
                looked.suspects.push((key.clone(), clustering.clone()));
            }
            let is_read = directory
                .piece_of(key)
                .is_some_and(|piece| piece.roles.read == self.bucket);
            looked.figures.rows += u64::from(is_read);
            looked.figures.bytes += if is_read { row.bytes } else { 0 };
        }
        for (key, sample) in of_keys.into_iter().filter(|(_, sample)| counts(sample)) {
            if judge(directory, self.bucket, key, None, Some(sample), true).is_some() {
                let clustering = self.place.pieced.clustering_of_key(key);
                looked.suspects.push((key.clone(), clustering));
            }
        }
        looked
    }
}

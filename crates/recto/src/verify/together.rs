//! Concurrent comparison of several views: their order, their shares of memory, and their joint
//! progress.

use std::sync::Arc;

use recto_protocol::views::ViewNumber;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinError, JoinSet};

use super::Verification;
use super::comparison::{Comparison, ComparisonProgress};
use super::place::Compared;
use crate::beside::ViewComparer;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::pace::Pace;
use crate::session::{Progress, VerifiedView, ViewProgress};
use crate::shared::Shared;

/// Number of views that are compared concurrently. Each comparison is a task, which occupies a
/// processor if it never waits.
const VIEWS_AT_ONCE: usize = 2;
/// Maximum number of progress reports of comparisons that wait in the channel.
const SAID_AHEAD: usize = 1;

/// Concurrent comparison of several views.
pub(super) struct Together<'a> {
    pub(super) how: &'a Verification,
    pub(super) shared: &'a Arc<Shared>,
    /// Collection of each view, in the order of the compared views.
    pub(super) cores: Vec<Arc<CollectionCore>>,
    pub(super) compared: Compared,
    pub(super) progress: Progress<'a, ViewProgress>,
    /// True if progress reports contain checkpoints, from which an interrupted comparison resumes.
    pub(super) tells_places: bool,
}

/// Numbers of rows in the comparison of one view.
#[derive(Debug, Clone, Copy, Default)]
struct Rows {
    read: u64,
    /// Estimated total number of rows to read; `None` if it is not known yet.
    total: Option<u64>,
    is_under_way: bool,
}

impl Together<'_> {
    /// Compares the views. Returns the findings for each view.
    ///
    /// # Errors
    /// The store cannot be read or written, or a row of a base table is damaged.
    pub(super) async fn run(mut self) -> Result<Vec<VerifiedView>> {
        let (says, mut said) = mpsc::channel(SAID_AHEAD);
        let pace = Pace::new(self.how.rows_per_second, &self.shared.environment);
        let pace = Arc::new(Mutex::new(pace));
        let views = self.compared.views.iter().enumerate();
        let left = views.filter(|(_, view)| view.next.is_some());
        let left: Vec<usize> = left.map(|(number, _)| number).collect();
        let at_once = left.len().clamp(1, VIEWS_AT_ONCE);
        let mut rows = vec![Rows::default(); self.compared.views.len()];
        let mut resume = self.resume();
        let (mut waiting, mut tasks) = (left.iter().copied(), JoinSet::new());
        loop {
            while tasks.len() < at_once
                && let Some(number) = waiting.next()
            {
                let Some(beside) = self.beside(number) else {
                    self.compared.views[number].next = None;
                    continue;
                };
                rows[number].is_under_way = true;
                let comparison = Comparison {
                    beside,
                    mends: self.how.mends,
                    pace: Arc::clone(&pace),
                    memory_bytes: self.how.memory_bytes / at_once as u64,
                    reached: self.compared.views[number].clone(),
                    number,
                    hears: says.clone(),
                    suspects: Vec::new(),
                };
                tasks.spawn(comparison.run());
            }
            tokio::select! {
                // `biased` ensures that the reports of a task are received before its end.
                biased;
                Some((number, heard)) = said.recv() => {
                    match heard {
                        ComparisonProgress::Rows(more) => rows[number].read += more,
                        ComparisonProgress::Left(more) => rows[number].total = Some(rows[number].read + more),
                        ComparisonProgress::Reached(reached) => {
                            rows[number].is_under_way = reached.next.is_some();
                            self.compared.views[number] = reached;
                            resume = self.resume();
                        }
                    }
                    (self.progress)(self.told(&left, &rows, resume.as_deref()));
                }
                ended = tasks.join_next() => match ended {
                    Some(ended) => ended.map_err(broken_off)??,
                    None => break,
                },
            }
        }
        Ok(self.compared.views.into_iter().map(|view| view.found).collect())
    }

    /// Returns the comparer of the view with the index `number`; `None` if writes of the view's
    /// collection do not maintain the view.
    fn beside(&self, number: usize) -> Option<ViewComparer> {
        let view = ViewNumber(self.compared.views[number].number);
        ViewComparer::new(&self.cores[number], view)
    }

    /// Returns the checkpoint with which the comparison can resume; `None` if nothing was compared
    /// yet.
    fn resume(&self) -> Option<String> {
        let is_begun = self.compared.views.iter().any(|view| view.next != Some(0));
        if !self.tells_places || !(is_begun || self.compared.buckets.iter().any(|one| one.is_over)) {
            return None;
        }
        self.compared.seal(self.shared)
    }

    /// Returns the joint progress of all views. It names only views of one collection: the first
    /// collection with views that are being compared.
    fn told(&self, left: &[usize], rows: &[Rows], resume: Option<&str>) -> ViewProgress {
        let found = |number: usize| &self.compared.views[number].found;
        let under_way = left.iter().copied().filter(|number| rows[*number].is_under_way);
        let under_way: Vec<usize> = under_way.collect();
        let named = under_way.first().or(left.last()).map(|number| found(*number));
        let collection = named.map(|one| one.collection.clone()).unwrap_or_default();
        let mut views: Vec<&str> = under_way
            .iter()
            .map(|number| found(*number))
            .filter(|one| one.collection == collection)
            .map(|one| one.view.as_str())
            .collect();
        if views.is_empty() {
            views.extend(named.map(|one| one.view.as_str()));
        }
        let read = left.iter().map(|number| rows[*number].read).sum();
        // Assume that each view of unknown size has the mean size of the views of known size.
        let known: Vec<u64> = left.iter().filter_map(|number| rows[*number].total).collect();
        let total = (!known.is_empty())
            .then(|| known.iter().sum::<u64>().saturating_mul(left.len() as u64) / known.len() as u64);
        ViewProgress {
            view: views.join(", "),
            collection,
            step: "verifying".to_owned(),
            rows: read,
            total: total.map(|total| total.max(read)),
            resume: resume.map(str::to_owned),
        }
    }
}

#[cold]
fn broken_off(error: JoinError) -> Error {
    Error::new(
        ErrorKind::Store,
        format!("the comparison of a view broke off: {error}"),
    )
    .with_hint("this is a defect of Recto; the same comparison goes on where it is told to")
}

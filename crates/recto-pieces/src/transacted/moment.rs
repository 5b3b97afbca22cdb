//! Snapshot, and range maps as of the snapshot.

use std::sync::Arc;
use std::time::Duration;

use recto_model::table::ReadDirection;
use recto_protocol::buckets::{Directory, Span};
use recto_store::{ReadOptions, Snapshot};

use super::Transacted;
use super::known::Epoch;
use super::whole::Whole;
use crate::directory::{Seek, Window, missing};
use crate::error::Result;
use crate::place::Place;

/// Snapshot of the store, and the number of changes of range maps before it.
#[derive(Clone)]
pub struct Moment {
    snapshot: Arc<dyn Snapshot>,
    epoch: Epoch,
}

impl Moment {
    /// Returns the snapshot for reads of rows.
    pub fn snapshot(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }
}

impl Transacted {
    /// Returns a snapshot of the current state. Does not wait for splits.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn snapshot(&self) -> Result<Moment> {
        // Read the epoch first: all changes up to it are in the snapshot.
        let epoch = self.known.epoch();
        let snapshot = self.store.snapshot()?;
        Ok(Moment { snapshot, epoch })
    }

    /// Returns the range map of a partition as of a snapshot, or the window of it that matches `seek`. Uses the cached
    /// range map if the partition was not split since, else reads the range map in the snapshot. The version in the
    /// result may be older than the range map.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub async fn directory(
        &self,
        moment: &Moment,
        place: &Place,
        seek: &Seek,
        time: Duration,
    ) -> Result<Arc<Directory>> {
        if let Some(whole) = self.known.find_as_of(&place.id, moment.epoch) {
            return Ok(whole.window(seek));
        }
        let deadline = self.deadline(time);
        let snapshot = &*moment.snapshot;
        let first = self.read_window(snapshot, place, None, deadline).await?;
        let first = Arc::new(first);
        if first.is_whole() {
            if let Some(whole) = Whole::new(vec![Arc::clone(&first)]) {
                self.known.keep_as_of(&place.id, Arc::new(whole), moment.epoch);
            }
            return Ok(first);
        }
        if seek.is_met(&first) {
            return Ok(first);
        }
        let options = ReadOptions {
            timeout: self.request_time(deadline)?,
            ..ReadOptions::default()
        };
        self.counters.read_directory();
        let start = self.tables.window_start(snapshot, place, seek, &options).await?;
        match self.tables.read_window(snapshot, place, start, &options).await? {
            Window::Read(window) if seek.is_met(&window) => Ok(Arc::new(window)),
            _ => Err(missing()),
        }
    }

    /// Returns the range map as [`directory`](Self::directory) does, if it is cached.
    pub(crate) fn directory_now(
        &self,
        moment: &Moment,
        place: &Place,
        seek: &Seek,
    ) -> Option<Arc<Directory>> {
        let whole = self.known.find_as_of(&place.id, moment.epoch)?;
        Some(whole.window(seek))
    }

    /// Returns the cached range map of a partition, for descriptions.
    pub(crate) fn directory_known(&self, place: &Place, seek: &Seek) -> Option<Arc<Directory>> {
        let entry = self.known.find(&place.id)?;
        Some(entry.whole.window(seek))
    }
}

/// Returns the window that contains the first keys of a span in the direction of the read.
pub(crate) fn seek_of(span: &Span, direction: ReadDirection) -> Seek {
    match direction {
        ReadDirection::Forward => Seek::At(span.start.clone()),
        ReadDirection::Backward => Seek::Before(span.end.clone()),
    }
}

/// Returns the rest of a span after `read` was read.
pub(crate) fn rest_of(span: Span, read: Span, direction: ReadDirection) -> Option<Span> {
    match direction {
        ReadDirection::Forward => {
            let start = read.end.filter(|start| span.end.as_ref() != Some(start))?;
            Some(Span { start, ..span })
        }
        ReadDirection::Backward => {
            let is_left = read.start > span.start;
            let end = Some(read.start);
            is_left.then_some(Span { end, ..span })
        }
    }
}

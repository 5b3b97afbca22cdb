//! A snapshot, and directories as they were then.

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

/// A snapshot of the store, and when it was taken by the count of changes of directories.
#[derive(Clone)]
pub struct Moment {
    snapshot: Arc<dyn Snapshot>,
    epoch: Epoch,
}

impl Moment {
    /// The snapshot, by which rows are read.
    pub fn snapshot(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }
}

impl Transacted {
    /// The store as it is now. Nobody waits for a cut.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn snapshot(&self) -> Result<Moment> {
        // First the epoch: what has changed by then is in the snapshot.
        let epoch = self.known.epoch();
        let snapshot = self.store.snapshot()?;
        Ok(Moment { snapshot, epoch })
    }

    /// The directory of a partition as it was at a moment, or a window of it that is met by `seek`. What is known of the
    /// partition is gone by where it was not cut since; else it is read in the snapshot. What it says of its version may be older.
    ///
    /// # Errors
    /// It cannot be read in time, or is damaged.
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

    /// The same, if it is known at once.
    pub(crate) fn directory_now(
        &self,
        moment: &Moment,
        place: &Place,
        seek: &Seek,
    ) -> Option<Arc<Directory>> {
        let whole = self.known.find_as_of(&place.id, moment.epoch)?;
        Some(whole.window(seek))
    }

    /// What is known of a partition now, for people.
    pub(crate) fn directory_known(&self, place: &Place, seek: &Seek) -> Option<Arc<Directory>> {
        let entry = self.known.find(&place.id)?;
        Some(entry.whole.window(seek))
    }
}

/// Which window has what is read first of a span.
pub(crate) fn seek_of(span: &Span, direction: ReadDirection) -> Seek {
    match direction {
        ReadDirection::Forward => Seek::At(span.start.clone()),
        ReadDirection::Backward => Seek::Before(span.end.clone()),
    }
}

/// What of a span is left when this was read of it.
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

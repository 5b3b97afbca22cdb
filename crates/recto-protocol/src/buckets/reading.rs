//! State machine that reads a span of keys from all buckets that contain it.

use crate::buckets::copy::{Clock, DirectoryCopy};
use crate::buckets::directory::Span;
use crate::buckets::limits::Protocol;
use crate::buckets::routing::Slice;
use crate::buckets::rules::Rule;

/// Event that the caller reports to [`Reading`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadEvent {
    /// The caller starts the read.
    Begin,
    /// The caller has a range map (which bucket holds which keys), or the window of it that
    /// contains the first key of the span. A backward read needs the window with the last key.
    Copy(DirectoryCopy),
    /// The caller has read the first `usize` slices of [`ReadAction::Slices`].
    Read(usize),
}

/// Action that the caller of [`Reading`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadAction {
    /// Use the cached range map of this process if it has not expired. Otherwise read the range
    /// map.
    Take,
    /// Read the range map (which bucket holds which keys) from the store, because the cached one
    /// has expired.
    Read,
    /// Read these slices in this order, until there are enough rows. Discard rows of an earlier
    /// `Slices` action.
    Slices {
        /// Slices to read: a bucket, and the keys to return from it.
        slices: Vec<Slice>,
        /// Part of the span that is not in `slices`; `None`: the slices contain the whole span.
        rest: Option<Span>,
    },
    /// Return the rows that were read. They came from the right buckets.
    Done,
}

/// State machine that reads a span of keys from the buckets of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    span: Span,
    /// True if the read goes from the last key to the first.
    is_backward: bool,
    copy: Option<DirectoryCopy>,
    /// Slices to read, or, while `is_checking`, the slices that were read and must be confirmed by
    /// a newer range map.
    slices: Vec<Slice>,
    is_checking: bool,
    protocol: Protocol,
}

impl Reading {
    /// Creates a read of the keys in `span`, from the first key or, if `is_backward`, from the
    /// last.
    pub fn new(span: Span, is_backward: bool, protocol: Protocol) -> Self {
        Self {
            span,
            is_backward,
            copy: None,
            slices: Vec::new(),
            is_checking: false,
            protocol,
        }
    }

    /// Handles an event, and returns the next action of the caller. `now` is the time of the event.
    pub fn step(&mut self, event: ReadEvent, now: Clock) -> ReadAction {
        match event {
            ReadEvent::Begin => ReadAction::Take,
            ReadEvent::Copy(copy) => {
                let is_as_read = self.is_checking && is_as_read(&copy, &self.slices);
                self.is_checking = false;
                if is_as_read {
                    return ReadAction::Done;
                }
                self.begin(copy)
            }
            ReadEvent::Read(count) => {
                let is_safe = self.copy.as_ref().is_some_and(|copy| copy.lives(now));
                if is_safe || !self.keeps(Rule::ReadAgainWhenOver) {
                    return ReadAction::Done;
                }
                self.slices.truncate(count);
                self.is_checking = true;
                ReadAction::Read
            }
        }
    }

    fn begin(&mut self, copy: DirectoryCopy) -> ReadAction {
        let directory = copy.directory();
        let (slices, rest) = directory.first_slices(&self.span, self.is_backward);
        self.slices = slices;
        if !self.keeps(Rule::ReadsClipped) {
            for slice in &mut self.slices {
                slice.span = self.span.clone();
            }
        }
        self.copy = Some(copy);
        let slices = self.slices.clone();
        ReadAction::Slices { slices, rest }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.protocol.rules.keeps(rule)
    }
}

/// Returns whether the range map in `copy` reads all slices of `read` from the same buckets. If so,
/// the buckets were valid during the whole read: once a bucket is no longer read, it is never read
/// again.
fn is_as_read(copy: &DirectoryCopy, read: &[Slice]) -> bool {
    read.iter().all(|slice| {
        let now = copy.directory().slices(&slice.span);
        now.as_slice() == std::slice::from_ref(slice)
    })
}

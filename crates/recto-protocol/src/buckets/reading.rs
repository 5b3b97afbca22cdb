//! Read of a span of keys, from all buckets that contain it.

use crate::buckets::copy::{Clock, DirectoryCopy};
use crate::buckets::directory::Span;
use crate::buckets::limits::Protocol;
use crate::buckets::routing::Slice;
use crate::buckets::rules::Rule;

/// Event of a read that the caller reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadEvent {
    /// The caller starts the read.
    Begin,
    /// A range map is available, or the window of it that contains the first key of the span; for a backward
    /// read, the last key.
    Copy(DirectoryCopy),
    /// The caller has read this number of slices, as far as it needs them.
    Read(usize),
}

/// Action of a read that the caller takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadAction {
    /// Use the cached range map of this process, if it is valid. Otherwise read a range map.
    Take,
    /// Read the range map again.
    Read,
    /// Read these slices, in this order, each in the direction of the read, as far as they are needed.
    /// Discard all rows that were read earlier.
    Slices {
        /// Slices to read, each of one bucket.
        slices: Vec<Slice>,
        /// Part of the span that other windows contain.
        rest: Option<Span>,
    },
    /// Report the rows that were read: they are valid.
    Done,
}

/// State machine that reads a span of keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    span: Span,
    /// True if the read begins at the last key.
    is_backward: bool,
    copy: Option<DirectoryCopy>,
    /// Slices to read. While `is_checking`, slices that were read and are compared with a newer range map.
    slices: Vec<Slice>,
    is_checking: bool,
    protocol: Protocol,
}

impl Reading {
    /// Returns a read of this span, from its first key; if `is_backward`, from its last key.
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

    /// Handles an event, and returns the next action. `now` is the current time.
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

/// Returns whether this range map reads all these slices from the same buckets. If it does, the buckets were
/// valid during the whole read, because a bucket that is no longer read is never read again.
fn is_as_read(copy: &DirectoryCopy, read: &[Slice]) -> bool {
    read.iter().all(|slice| {
        let now = copy.directory().slices(&slice.span);
        now.as_slice() == std::slice::from_ref(slice)
    })
}

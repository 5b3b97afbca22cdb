//! One reading of a span of keys, from as many buckets as it lies in.

use crate::buckets::copy::{Clock, DirectoryCopy};
use crate::buckets::directory::Span;
use crate::buckets::limits::Protocol;
use crate::buckets::routing::Slice;
use crate::buckets::rules::Rule;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadEvent {
    /// It can begin.
    Begin,
    /// A copy of the directory, or of the window of it that has the first key; the last one, if it is read backward.
    Copy(DirectoryCopy),
    /// All was read of so many of the slices that is wanted of them.
    Read(usize),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadAction {
    /// Take the copy that this process has, if it lives; else read one.
    Take,
    /// Read a copy anew.
    Read,
    /// Read these, in this order, each in the direction of the reading, or as many as are needed. What was read before is forgotten.
    Slices {
        /// What is read of which bucket.
        slices: Vec<Slice>,
        /// What another window has.
        rest: Option<Span>,
    },
    /// What was read is so.
    Done,
}

/// A reading under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    span: Span,
    /// Whether it begins at the last key.
    is_backward: bool,
    copy: Option<DirectoryCopy>,
    /// What is read; what was, when the copy was over by then.
    slices: Vec<Slice>,
    is_checking: bool,
    protocol: Protocol,
}

impl Reading {
    /// Of this span, from its first key on; `is_backward`: from its last one.
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

    /// What is to be done about what happened, when the clocks show this.
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

/// Whether the same buckets are read by this copy for all that was read. A bucket that is not read any more never is
/// again, so that it was so all the time.
fn is_as_read(copy: &DirectoryCopy, read: &[Slice]) -> bool {
    read.iter().all(|slice| {
        let now = copy.directory().slices(&slice.span);
        now.as_slice() == std::slice::from_ref(slice)
    })
}

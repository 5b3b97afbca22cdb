//! Messages on their way into a shard: bodies, then the log, and all again in the next segment where one is sealed.
//!
//! ```text
//!  begin ► open segment ► bodies ► append ─┬─ appended ► answer
//!             ▲                            │
//!             └── recorded in the head ◄───┴─ sealed, or released
//! ```

use std::sync::Arc;

use crate::head::{HeadAnswer, HeadWish, Live, Reach};
use crate::limits::{FAR_MICROS, Protocol};
use crate::log::{Entry, LogAnswer, LogWish, Placed};
use crate::names::{Chunk, Segment};
use crate::rules::Rule;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendEvent {
    /// It can begin, and nothing is known of the head. Otherwise what the copy has open can be told at once.
    Begin,
    /// The head answered the last of its wishes; the ring was read since, serially, if that is asked for.
    Head(HeadAnswer),
    /// All bodies are written.
    Written,
    /// The log answered.
    Log(LogAnswer),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendAction {
    /// Ask the head these, in one round.
    Head(Vec<HeadWish>),
    /// Write the bodies, plainly, until all are written. With table 0 they are put with the log's row, and it is done.
    Write {
        /// Where.
        live: Live,
        /// Of this segment.
        segment: Segment,
        /// By this name.
        chunk: Chunk,
    },
    /// Ask the log of the segment's register.
    Log {
        /// Where.
        live: Live,
        /// Which segment.
        segment: Segment,
        /// What.
        wish: LogWish,
    },
    /// Tell whoever waits; it is over.
    Answer(SendAnswer),
}

/// What became of the messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SendAnswer {
    /// Each stands there, or is a duplicate.
    Sent(Segment, Vec<Placed>),
    /// Nothing was sent: the shard is full.
    Full,
    /// Nothing was sent: no segment holds as much.
    TooLarge,
    /// They may have been sent: too much time has passed to tell.
    Unknown,
    /// Nothing was sent: the head names a segment that its register has no more. Registers and head are not of one time, as
    /// when some were restored and others were not.
    Damaged,
}

/// Messages of one reach, on their way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Send {
    chunk: Chunk,
    entries: Arc<[Entry]>,
    reach: Reach,
    open: Option<(Segment, Live)>,
    /// What the log said is gone: a head that was read since does not have it.
    gone: Option<Segment>,
    protocol: Protocol,
}

/// Which segment takes a message. One with a deduplication id stands with all others that may have the same.
pub fn reach(entry: &Entry) -> Reach {
    let delay = entry.not_before.saturating_sub(entry.sent);
    if delay > FAR_MICROS && entry.deduplication.is_none() {
        Reach::Far
    } else {
        Reach::Near
    }
}

impl Send {
    /// Of these messages, one at least, all of one [`reach`], under a chunk that nothing else has.
    pub fn new(reach: Reach, chunk: Chunk, entries: Arc<[Entry]>, protocol: Protocol) -> Self {
        Self {
            chunk,
            entries,
            reach,
            open: None,
            gone: None,
            protocol,
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, event: SendEvent) -> Vec<SendAction> {
        match (event, self.open) {
            (SendEvent::Head(HeadAnswer::Open(segment, _)), _) if self.gone == Some(segment) => {
                vec![SendAction::Answer(SendAnswer::Damaged)]
            }
            (SendEvent::Head(HeadAnswer::Open(segment, live)), _) => {
                self.open = Some((segment, live));
                self.go_into(segment, live)
            }
            (SendEvent::Head(HeadAnswer::Full), _) => vec![SendAction::Answer(SendAnswer::Full)],
            (SendEvent::Head(HeadAnswer::Absent), _) => self.ask_head(Some(HeadWish::Fence)),
            (SendEvent::Begin | SendEvent::Head(_), _) => self.ask_head(None),
            (SendEvent::Written, Some((segment, live))) => {
                if self.protocol.rules.keeps(Rule::BodiesFirst) {
                    vec![self.append(segment, live)]
                } else {
                    Vec::new()
                }
            }
            (SendEvent::Log(answer), Some((segment, _))) => self.logged(segment, answer),
            (SendEvent::Written | SendEvent::Log(_), None) => Vec::new(),
        }
    }

    fn go_into(&self, segment: Segment, live: Live) -> Vec<SendAction> {
        let write = SendAction::Write {
            live,
            segment,
            chunk: self.chunk,
        };
        if self.protocol.rules.keeps(Rule::BodiesFirst) {
            vec![write]
        } else {
            vec![self.append(segment, live), write]
        }
    }

    fn append(&self, segment: Segment, live: Live) -> SendAction {
        let wish = LogWish::Append {
            chunk: self.chunk,
            entries: self.entries.clone(),
        };
        SendAction::Log { live, segment, wish }
    }

    fn logged(&mut self, segment: Segment, answer: LogAnswer) -> Vec<SendAction> {
        let answer = match answer {
            LogAnswer::Appended(placed) => SendAnswer::Sent(segment, placed),
            LogAnswer::Sealed(count) => {
                return self.ask_head(Some(HeadWish::Sealed { segment, count }));
            }
            LogAnswer::Gone => {
                self.gone = Some(segment);
                return self.ask_head(None);
            }
            LogAnswer::TooLarge => SendAnswer::TooLarge,
            LogAnswer::Unknown => SendAnswer::Unknown,
        };
        vec![SendAction::Answer(answer)]
    }

    fn ask_head(&mut self, before: Option<HeadWish>) -> Vec<SendAction> {
        self.open = None;
        let wishes = before.into_iter().chain([HeadWish::Open(self.reach)]);
        vec![SendAction::Head(wishes.collect())]
    }
}

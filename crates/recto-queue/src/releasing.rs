//! A segment leaves the list of its shard.

use crate::head::HeadWish;
use crate::limits::Protocol;
use crate::log::{Entry, Log, Origin};
use crate::names::{Address, Chunk, Seq};
use crate::rules::Rule;
use crate::state::{StateWish, Target};

/// What is to be done to release a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReleaseAction {
    /// Ask the state of a message that was moved here, where it was; it is no matter what that answers.
    Source(Origin, StateWish),
    /// Ask the segment's head. Then it is over.
    Head(HeadWish),
}

/// A segment leaves the list, done with or purged, when whatever was moved here is resolved where it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    last: HeadWish,
    /// The last one first.
    sources: Vec<(Origin, Target)>,
}

impl Releasing {
    /// Of a segment of this shard, whose log is sealed, and so many of whose messages are resolved.
    pub fn new(here: Address, log: &Log, resolved: u32, protocol: Protocol) -> Self {
        let segment = log.segment;
        Self::ending(HeadWish::Release { segment, resolved }, here, log, protocol)
    }

    /// Of a segment of this shard, whose log is sealed, whatever its messages are.
    pub fn purging(here: Address, log: &Log, protocol: Protocol) -> Self {
        Self::ending(HeadWish::Purge(log.segment), here, log, protocol)
    }

    fn ending(last: HeadWish, here: Address, log: &Log, protocol: Protocol) -> Self {
        let segment = log.segment;
        let source = |(_, chunk, entry): (Seq, Chunk, &Entry)| {
            let target = Target {
                address: here,
                segment,
                chunk,
            };
            Some((entry.origin?, target))
        };
        let is_settled = protocol.rules.keeps(Rule::OriginsSettledFirst);
        Self {
            last,
            sources: log.messages().filter_map(source).filter(|_| is_settled).collect(),
        }
    }

    /// What is to be done first; and then, each time that is answered.
    pub fn step(&mut self) -> ReleaseAction {
        let last = ReleaseAction::Head(self.last);
        self.sources.pop().map_or(last, |(origin, target)| {
            let seq = origin.seq;
            ReleaseAction::Source(origin, StateWish::Left { seq, target })
        })
    }
}

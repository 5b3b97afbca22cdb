//! Which groups of an ordered queue must wait: those that have messages before, in whichever live segment.

use std::collections::BTreeSet;

use crate::queues::head::Head;
use crate::queues::limits::Protocol;
use crate::queues::log::Log;
use crate::queues::names::{Fingerprint, Segment};
use crate::queues::rules::Rule;
use crate::queues::state::State;

/// Groups that have messages which are not resolved, in the live segments before one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Order {
    blocked: BTreeSet<Fingerprint>,
    is_unknown: bool,
}

/// Groups of the messages of a segment that are not resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct OpenGroups {
    groups: BTreeSet<Fingerprint>,
    /// Whether a message has none.
    has_others: bool,
    /// Whether no message can come.
    is_whole: bool,
}

impl OpenGroups {
    /// Of a segment, by copies of its log and state as they were read at any time: what is resolved is so for ever, and a sealed
    /// log has all that it ever will.
    pub fn of(segment: Segment, log: &Log, state: &State) -> Option<Self> {
        let mut open = Self {
            is_whole: log.is_sealed,
            ..Self::default()
        };
        for (_, entry) in state.unresolved(segment, log) {
            match entry.group {
                Some(group) => drop(open.groups.insert(group)),
                None => open.has_others = true,
            }
        }
        (log.segment == segment).then_some(open)
    }
}

impl Order {
    /// Of a segment, by a head that has it, or had, and copies of the log and state of the others, all as they were read at
    /// any time. A live segment before that was not read, or whose log was not sealed then, blocks all.
    pub fn of<'a>(
        head: &Head,
        segment: Segment,
        copies: impl Fn(Segment) -> Option<(&'a Log, &'a State)>,
        protocol: Protocol,
    ) -> Self {
        let mut order = Self {
            is_unknown: head.last < segment,
            ..Self::default()
        };
        for before in head.live.range(..segment).map(|(before, _)| *before) {
            let open = copies(before).and_then(|(log, state)| OpenGroups::of(before, log, state));
            order.passes(open.as_ref(), protocol);
        }
        order
    }

    /// One more live segment stands before; none: it was not read. By a head that has all of them the order of the first one is
    /// empty, and that of each other one is had by passing those before, one after the other.
    pub fn passes(&mut self, open: Option<&OpenGroups>, protocol: Protocol) {
        let Some(open) = open else {
            self.is_unknown = true;
            return;
        };
        self.is_unknown |= !open.is_whole && protocol.rules.keeps(Rule::EarlierLogsSealed);
        self.blocked.extend(&open.groups);
    }

    /// Whether nothing is received behind, since not all is known of what stands before.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_unknown
    }

    pub(crate) fn blocks(&self, group: Fingerprint) -> bool {
        self.blocked.contains(&group)
    }

    /// Whether no message of a segment is in its turn.
    pub fn blocks_all(&self, open: &OpenGroups) -> bool {
        self.is_unknown || !open.has_others && open.groups.is_subset(&self.blocked)
    }

    /// What matters of it in a segment: of one to which messages may come, all.
    #[must_use]
    pub fn within(&self, open: &OpenGroups) -> Self {
        if !open.is_whole {
            return self.clone();
        }
        Self {
            blocked: open.groups.intersection(&self.blocked).copied().collect(),
            is_unknown: self.is_unknown,
        }
    }
}

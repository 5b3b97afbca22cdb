//! Message groups of an ordered queue that must wait in a segment, because earlier live segments
//! have unresolved messages of the same groups.

use std::collections::BTreeSet;

use crate::queues::claims::State;
use crate::queues::limits::Protocol;
use crate::queues::log::Log;
use crate::queues::names::{Fingerprint, Segment};
use crate::queues::rules::Rule;
use crate::queues::shard_manifest::Head;

/// Groups that must wait in a segment, because earlier live segments have unresolved messages of
/// these groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Order {
    blocked: BTreeSet<Fingerprint>,
    is_unknown: bool,
}

/// Groups of the unresolved messages of one segment (batch of messages).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct OpenGroups {
    groups: BTreeSet<Fingerprint>,
    /// True if some unresolved message has no group.
    has_others: bool,
    /// True if the log is sealed, so that the segment (message batch) gets no more messages.
    is_whole: bool,
}

impl OpenGroups {
    /// Finds the groups of the unresolved messages of a segment; `None` if the log belongs to
    /// another segment. `log` and `state` may be stale copies: then the result may contain groups
    /// that are resolved by now, which is safe.
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
    /// Finds the groups that must wait in `segment`. The manifest `head` must list the segment, or
    /// have listed it. The manifest and the copies of logs and states may be stale. An earlier live
    /// segment without a copy, or whose log is not sealed, blocks all groups.
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

    /// Adds the groups of the next live segment before the segment of this order; `None`: that
    /// segment was not read, so all groups must wait. The order of the oldest live segment is
    /// empty.
    pub fn passes(&mut self, open: Option<&OpenGroups>, protocol: Protocol) {
        let Some(open) = open else {
            self.is_unknown = true;
            return;
        };
        self.is_unknown |= !open.is_whole && protocol.rules.keeps(Rule::EarlierLogsSealed);
        self.blocked.extend(&open.groups);
    }

    /// Returns whether all messages must wait, because an earlier segment was not read or may get
    /// more messages.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_unknown
    }

    pub(crate) fn blocks(&self, group: Fingerprint) -> bool {
        self.blocked.contains(&group)
    }

    /// Returns whether all messages of the segment (message batch) with these groups must wait.
    pub fn blocks_all(&self, open: &OpenGroups) -> bool {
        self.is_unknown || !open.has_others && open.groups.is_subset(&self.blocked)
    }

    /// Returns the part of the order that can affect the segment with these groups: the groups that
    /// occur in the segment, or all groups if the segment may get more messages.
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

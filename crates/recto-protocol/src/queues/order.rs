//! Groups of an ordered queue that must wait, because earlier messages of the group exist in some live
//! segment.

use std::collections::BTreeSet;

use crate::queues::head::Head;
use crate::queues::limits::Protocol;
use crate::queues::log::Log;
use crate::queues::names::{Fingerprint, Segment};
use crate::queues::rules::Rule;
use crate::queues::state::State;

/// Groups with unresolved messages in the live segments before a certain segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Order {
    blocked: BTreeSet<Fingerprint>,
    is_unknown: bool,
}

/// Groups of the unresolved messages of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct OpenGroups {
    groups: BTreeSet<Fingerprint>,
    /// True if a message has no group.
    has_others: bool,
    /// True if the log is sealed, so that no more messages can come.
    is_whole: bool,
}

impl OpenGroups {
    /// Finds the open groups of a segment from copies of its log and state; `None` if the log belongs to
    /// another segment. The copies may be stale: a resolved message stays resolved, and a sealed log never
    /// grows.
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
    /// Finds the groups that must wait in a segment. The manifest must have, or have had, the segment. The
    /// manifest and the copies of logs and states may be stale. An earlier live segment that was not read, or
    /// whose log was not sealed, blocks all groups.
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

    /// Adds the open groups of one more earlier live segment; `None`: the segment was not read. The order of
    /// the oldest live segment is empty. The order of each later segment results from adding the open groups
    /// of all segments before it.
    pub fn passes(&mut self, open: Option<&OpenGroups>, protocol: Protocol) {
        let Some(open) = open else {
            self.is_unknown = true;
            return;
        };
        self.is_unknown |= !open.is_whole && protocol.rules.keeps(Rule::EarlierLogsSealed);
        self.blocked.extend(&open.groups);
    }

    /// Returns whether no message of the segment may be received, because the earlier segments are not
    /// completely known.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_unknown
    }

    pub(crate) fn blocks(&self, group: Fingerprint) -> bool {
        self.blocked.contains(&group)
    }

    /// Returns whether each message of a segment must wait.
    pub fn blocks_all(&self, open: &OpenGroups) -> bool {
        self.is_unknown || !open.has_others && open.groups.is_subset(&self.blocked)
    }

    /// Returns the part of the order that matters for a segment. If more messages can come, that is the whole
    /// order. Otherwise it is the part with the groups of the segment.
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

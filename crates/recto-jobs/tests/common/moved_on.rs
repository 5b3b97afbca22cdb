//! Whether tables of bodies that were in use are free later, or in their next life, or were replaced.

use recto_jobs::{RingView, TableView};
use recto_protocol::queues::{Life, Phase};

/// All tables of the ring as it was before have moved on, and there are as many as there are to be.
pub(crate) fn all_moved_on(before: &RingView, ring: &RingView) -> bool {
    let usable = ring.tables.iter().filter(|table| table.phase != Phase::Retired);
    let has_moved_on = |table: &TableView| has_moved_on(table, ring);
    before.tables.iter().all(has_moved_on) && usable.count() == usize::from(ring.options.tables)
}

fn has_moved_on(before: &TableView, ring: &RingView) -> bool {
    let Some(now) = ring.tables.iter().find(|table| table.number == before.number) else {
        return true;
    };
    match (before.phase, now.phase) {
        (Phase::Free, _) | (_, Phase::Free) => true,
        (_, Phase::Retired) => false,
        (before, now) => life(before) != life(now),
    }
}

/// Which of its lives a table is in.
pub(crate) fn life(phase: Phase) -> Option<Life> {
    match phase {
        Phase::Free | Phase::Retired => None,
        Phase::Open { life, .. }
        | Phase::Closing { life, .. }
        | Phase::Closed { life, .. }
        | Phase::Emptying { life, .. }
        | Phase::Unit { life, .. } => Some(life),
    }
}

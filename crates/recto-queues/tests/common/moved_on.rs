//! Comparison of two states of the ring: whether all body tables that were in use have been emptied or
//! replaced.

use recto_protocol::queues::{Life, Phase};
use recto_queues::{RotationStatus, TableStatus};

/// Returns whether each table of the earlier ring is free, in another lifetime, or dropped. Also checks that
/// the ring has the configured number of tables.
pub(crate) fn all_moved_on(before: &RotationStatus, ring: &RotationStatus) -> bool {
    let usable = ring.tables.iter().filter(|table| table.phase != Phase::Retired);
    let has_moved_on = |table: &TableStatus| has_moved_on(table, ring);
    before.tables.iter().all(has_moved_on) && usable.count() == usize::from(ring.options.tables)
}

fn has_moved_on(before: &TableStatus, ring: &RotationStatus) -> bool {
    let Some(now) = ring.tables.iter().find(|table| table.number == before.number) else {
        return true;
    };
    match (before.phase, now.phase) {
        (Phase::Free, _) | (_, Phase::Free) => true,
        (_, Phase::Retired) => false,
        (before, now) => life(before) != life(now),
    }
}

/// Returns the current lifetime of a table in this phase.
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

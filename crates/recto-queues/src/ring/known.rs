//! Cached ring of body tables in this process.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use recto_protocol::queues::{BodyTable, QueueId, Register as _, Ring, Version};

/// Data for opening segments: the part of the newest ring (list of body tables) that this process
/// has read.
#[derive(Debug)]
pub(crate) struct KnownRing(RwLock<Known>);

#[derive(Debug)]
struct Known {
    version: Version,
    /// Body table in which queues open segments.
    open: BodyTable,
    /// Body table in which each work unit (temporary queue) opens segments.
    units: BTreeMap<QueueId, BodyTable>,
}

impl Default for KnownRing {
    fn default() -> Self {
        Self(RwLock::new(Known {
            version: 0,
            open: BodyTable(0),
            units: BTreeMap::new(),
        }))
    }
}

impl KnownRing {
    /// Updates the cached ring, unless it is newer than `ring`.
    pub(crate) fn learn(&self, ring: &Ring) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = ring.open().filter(|_| ring.version() > known.version) else {
            return;
        };
        *known = Known {
            version: ring.version(),
            open,
            units: ring.units().map(|(table, unit)| (unit, table)).collect(),
        };
    }

    /// Returns the version of the ring of body tables and the id of its open table. Both are 0 in a
    /// store without a ring.
    pub(crate) fn opens(&self) -> (Version, BodyTable) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (known.version, known.open)
    }

    /// Returns the table that a work unit (temporary queue) uses alone, if it has one.
    pub(crate) fn unit(&self, unit: QueueId) -> Option<BodyTable> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.units.get(&unit).copied()
    }
}

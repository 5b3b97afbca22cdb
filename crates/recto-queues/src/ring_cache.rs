//! Cached ring of body tables in this process.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use recto_protocol::queues::{BodyTable, QueueId, Register as _, Ring, Version};

/// Data for opening segments: the part of the newest ring (list of body tables) that this process
/// has read.
#[derive(Debug)]
pub(crate) struct RingCache(RwLock<CachedRing>);

#[derive(Debug)]
struct CachedRing {
    version: Version,
    /// Body table in which queues open segments.
    open: BodyTable,
    /// Body table in which each work unit (temporary queue) opens segments.
    units: BTreeMap<QueueId, BodyTable>,
}

impl Default for RingCache {
    fn default() -> Self {
        Self(RwLock::new(CachedRing {
            version: 0,
            open: BodyTable(0),
            units: BTreeMap::new(),
        }))
    }
}

impl RingCache {
    /// Updates the cached ring, unless it is newer than `ring`.
    pub(crate) fn update(&self, ring: &Ring) {
        let mut cached = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = ring.open().filter(|_| ring.version() > cached.version) else {
            return;
        };
        *cached = CachedRing {
            version: ring.version(),
            open,
            units: ring.units().map(|(table, unit)| (unit, table)).collect(),
        };
    }

    /// Returns the version of the ring of body tables and the id of its open table. Both are 0 in a
    /// store without a ring.
    pub(crate) fn open_table(&self) -> (Version, BodyTable) {
        let cached = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (cached.version, cached.open)
    }

    /// Returns the table that a work unit (temporary queue) uses alone, if it has one.
    pub(crate) fn unit_table(&self, unit: QueueId) -> Option<BodyTable> {
        let cached = self.0.read().unwrap_or_else(PoisonError::into_inner);
        cached.units.get(&unit).copied()
    }
}

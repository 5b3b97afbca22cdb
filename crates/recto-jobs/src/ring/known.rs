//! Ring, as this process knows it.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use recto_protocol::queues::{BodyTable, QueueId, Register as _, Ring, Version};

/// Newest ring that this process has read, as far as opening segments needs it.
#[derive(Debug)]
pub(crate) struct KnownRing(RwLock<Known>);

#[derive(Debug)]
struct Known {
    version: Version,
    /// Table in which segments are opened.
    open: BodyTable,
    /// Tables of work units.
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
    /// Updates the known ring, unless it is newer than `ring`.
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

    /// Returns the version of the ring and its open table; both are 0 without a ring.
    pub(crate) fn opens(&self) -> (Version, BodyTable) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (known.version, known.open)
    }

    /// Returns the table of a work unit.
    pub(crate) fn unit(&self, unit: QueueId) -> Option<BodyTable> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.units.get(&unit).copied()
    }
}

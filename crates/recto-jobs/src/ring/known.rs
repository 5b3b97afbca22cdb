//! What is known of the ring.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use recto_protocol::queues::{BodyTable, QueueId, Register as _, Ring, Version};

/// The newest ring that anybody here has read: as much of it as who opens segments has to know.
#[derive(Debug)]
pub(crate) struct KnownRing(RwLock<Known>);

#[derive(Debug)]
struct Known {
    version: Version,
    /// Where segments are opened.
    open: BodyTable,
    /// The tables that work units have.
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
    /// An older one than what is known is passed over.
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

    /// Its version, and its open table; 0 where there is no ring.
    pub(crate) fn opens(&self) -> (Version, BodyTable) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (known.version, known.open)
    }

    /// The table that a work unit has.
    pub(crate) fn unit(&self, unit: QueueId) -> Option<BodyTable> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.units.get(&unit).copied()
    }
}

//! State of the maintenance of body tables in this process, and commands to the ring.

use std::sync::{Arc, Mutex, PoisonError};

use recto_protocol::queues::{Phase, Ring, RingCommand, RingResponse};

use crate::cas_loop::CasLoop;
use crate::context::QueueContext;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::register_tables::ring::RingBackend;
use crate::shard::ShardCache;
use crate::table_recycling::sizes::SegmentSizes;

/// Maximum number of attempts to create the first table of the ring of body tables.
const MAX_CREATION_ATTEMPTS: u32 = 4;

/// Maintenance of the ring (body tables used in rotation) in this process.
pub(crate) struct TableRecycler {
    pub(crate) context: QueueContext,
    pub(crate) shards: Arc<ShardCache>,
    pub(crate) ring: Arc<CasLoop<RingBackend>>,
    /// Cached sizes of sealed segments, for the [status](crate::RotationStatus) of the ring of body tables.
    pub(crate) sizes: SegmentSizes,
    /// Error of a step that failed in the last run, if any.
    pub(crate) obstacle: Mutex<Option<QueueError>>,
}

impl TableRecycler {
    pub(crate) fn new(shards: &Arc<ShardCache>) -> Self {
        Self {
            context: shards.context.clone(),
            shards: Arc::clone(shards),
            ring: CasLoop::new(RingBackend::new(&shards.context)),
            sizes: SegmentSizes::default(),
            obstacle: Mutex::default(),
        }
    }

    pub(crate) async fn call(&self, command: RingCommand) -> Result<RingResponse> {
        self.ring.call(command).await
    }

    /// Makes sure that the ring of body tables has an open table, and that this process has read
    /// it.
    pub(crate) async fn begin(&self) -> Result<()> {
        for _ in 0..MAX_CREATION_ATTEMPTS {
            let ring = self.context.read_ring().await?;
            if ring.open().is_some() {
                return Ok(());
            }
            self.grow(&ring).await?;
        }
        let message = "no table of message bodies can be opened: nothing was done";
        Err(QueueError::new(QueueErrorKind::Store, message).with_hint("try again"))
    }

    /// Returns the error of a step that failed in the last run, if any.
    pub(crate) fn obstacle(&self) -> Option<QueueError> {
        let obstacle = self.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
        obstacle.clone()
    }

    /// Records the error of a step of the maintenance, which is shown to users.
    pub(crate) fn record_obstacle(&self, error: &QueueError) {
        let mut obstacle = self.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
        *obstacle = Some(error.clone());
    }

    pub(crate) fn record_failure(&self, done: Result<()>) {
        if let Err(error) = done {
            self.record_obstacle(&error);
        }
    }

    /// Adds a table to the ring of body tables if the ring has fewer than `size` tables that are
    /// not retired. Returns whether the ring had fewer.
    pub(crate) async fn grow_to(&self, ring: &Ring, size: usize) -> Result<bool> {
        let is_short = usable(ring) < size;
        if is_short {
            self.grow(ring).await?;
        }
        Ok(is_short)
    }

    /// Creates the table with the next unused id, and adds it to the ring (list of body tables).
    pub(crate) async fn grow(&self, ring: &Ring) -> Result<RingResponse> {
        let Some(next) = ring.next() else {
            return Ok(RingResponse::Full);
        };
        self.context
            .create_body_table(&self.context.tables.bodies(next))
            .await?;
        self.call(RingCommand::Add(next)).await
    }
}

/// Returns the number of tables of the ring (list of body tables) that are not retired.
fn usable(ring: &Ring) -> usize {
    let tables = ring.tables().values();
    tables.filter(|phase| **phase != Phase::Retired).count()
}

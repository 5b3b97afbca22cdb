//! Work units: temporary queues, each for a part of a queue's work. A work unit can be ended at once, even if
//! it still has messages.

use recto_protocol::queues::{
    QueueId, QueueName, Registry, RegistryCommand, RegistryResponse, RingCommand, RingResponse,
};

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::queue::Queue;
use crate::queues::{Queues, rejection};
use crate::table_recycling::rotation;

/// Maximum number of attempts to get a table for a work unit (temporary queue). After each failed
/// attempt, a table is added to the ring of body tables.
const MAX_TABLE_REQUESTS: u32 = 4;

impl Queues {
    /// Begins a work unit (temporary queue) of a queue, or returns the existing one. The work unit
    /// has the options of its queue. In a store with a ring (body tables used in rotation), the
    /// bodies of the work unit are in a table of their own. [`find`](Self::find) finds the work
    /// unit by the name `QUEUE/UNIT`.
    ///
    /// # Errors
    /// - The name is invalid, the queue does not exist, or the store has the maximum number of work units.
    ///   The work unit has not begun.
    /// - No table is free. The work unit has begun, but accepts no messages before it has a table.
    pub async fn begin_unit(&self, queue: QueueId, name: &str) -> Result<Queue> {
        let name = QueueName::new("unit", name)?;
        let id = QueueId(self.context().random());
        let command = RegistryCommand::Begin {
            id,
            queue,
            name: name.clone(),
        };
        let begun = match self.call(command).await? {
            RegistryResponse::Created(_) => id,
            RegistryResponse::Exists(_) => self.unit_of(queue, name.as_str()).await?.id,
            RegistryResponse::Full => {
                let message = "the store has the maximum number of work units: nothing was done";
                return Err(QueueError::new(QueueErrorKind::Full, message)
                    .with_hint("end a work unit first, or raise the option `units` of the store"));
            }
            other => return Err(rejection(&other)),
        };
        // If no table is free, the work unit stays in the registry, because another process may
        // have begun the same work unit, and found a table.
        self.take_table(begun).await?;
        self.unit_of(queue, name.as_str()).await
    }

    /// Ends a work unit (temporary queue) and deletes its remaining messages.
    ///
    /// # Errors
    /// The work unit does not exist.
    pub async fn end_unit(&self, queue: QueueId, name: &str) -> Result<()> {
        let unit = self.unit_of(queue, name).await?;
        self.delete(unit.id).await
    }

    /// Returns the work units (temporary queues) of a queue, sorted by name.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn units(&self, queue: QueueId) -> Result<Vec<Queue>> {
        let look = |registry: &Registry| {
            let units = registry.units().filter(|(.., unit)| unit.queue == queue);
            let known = units.filter_map(|(place, row, unit)| self.unit_handle(registry, place, row, unit));
            known.collect()
        };
        let mut units: Vec<Queue> = self.with_registry(look).await?;
        units.sort_by(|a, b| a.unit.cmp(&b.unit));
        Ok(units)
    }

    /// Returns all queues, each followed by its work units (temporary queues).
    pub(crate) async fn list_with_units(&self) -> Result<Vec<Queue>> {
        let look = |registry: &Registry| {
            let queues = registry.queues();
            let queues = queues.map(|(place, row, queue)| self.queue_handle(registry, place, row, queue));
            let units = registry.units();
            let units = units.filter_map(|(place, row, unit)| self.unit_handle(registry, place, row, unit));
            queues.chain(units).collect()
        };
        let mut all: Vec<Queue> = self.with_registry(look).await?;
        all.sort_by(|a, b| a.names().cmp(&b.names()));
        Ok(all)
    }

    async fn unit_of(&self, queue: QueueId, name: &str) -> Result<Queue> {
        let found = self.with_registry(|registry| {
            let (place, row, unit) = registry.unit(queue, name)?;
            self.unit_handle(registry, place, row, unit)
        });
        found.await?.ok_or_else(|| no_unit(name))
    }

    /// Takes a table of the ring of body tables for a work unit (temporary queue). The work unit
    /// then uses the table alone.
    async fn take_table(&self, unit: QueueId) -> Result<()> {
        let Some(recycler) = &self.0.recycler else {
            return Ok(());
        };
        for _ in 0..MAX_TABLE_REQUESTS {
            if recycler.call(RingCommand::Begin(unit)).await? == RingResponse::Done {
                return Ok(());
            }
            let ring = recycler.context.read_ring().await?;
            let size = self.with_registry(rotation::table_count).await?;
            if !recycler.grow_to(&ring, size).await? {
                break;
            }
        }
        let message = "no table of message bodies is free for the work unit: it accepts no messages yet";
        Err(QueueError::new(QueueErrorKind::Full, message)
            .with_hint("begin the work unit again later, end it, or allow more tables of message bodies"))
    }
}

fn no_unit(name: &str) -> QueueError {
    let message = format!("there is no work unit {name}, or it has ended");
    QueueError::new(QueueErrorKind::NotFound, message).with_hint("begin the work unit first")
}

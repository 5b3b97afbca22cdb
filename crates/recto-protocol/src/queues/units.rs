//! End of temporary queues: their tables are closed for reuse.
//!
//! A temporary queue is in the registry before it has a table, and never returns to the registry after it has
//! ended. The queue has ended if the ring lists its table and a registry that was read *after* the ring does
//! not list the queue.

use crate::queues::limits::Protocol;
use crate::queues::names::{BodyTable, QueueId};
use crate::queues::registry::Registry;
use crate::queues::ring::{Ring, RingAnswer, RingWish};
use crate::queues::rules::Rule;

/// Input of [`Ending`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UnitEvent {
    /// Start the task.
    Begin,
    /// Ring, read with serial consistency.
    Ring(Ring),
    /// Registry, read with serial consistency.
    Registry(Registry),
    /// Response of the ring.
    RingAnswer(RingAnswer),
}

/// Action of [`Ending`] that the caller must execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnitAction {
    /// Read the ring with serial consistency.
    ReadRing,
    /// Read the registry with serial consistency.
    ReadRegistry,
    /// Send a command to the ring.
    Ring(RingWish),
    /// The task is finished.
    Over,
}

/// Task that closes the tables of all temporary queues that have ended. The tables are
/// [emptied](crate::queues::Emptying) when nothing refers to them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ending {
    ring: Option<Ring>,
    registry: Option<Registry>,
    /// Ended queues whose tables are still to be closed; taken from the end.
    ended: Vec<(BodyTable, QueueId)>,
    protocol: Protocol,
}

impl Ending {
    /// Creates the task for all temporary queues that have a table.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            ring: None,
            registry: None,
            ended: Vec::new(),
            protocol,
        }
    }

    /// Handles an event and returns the next action.
    pub fn step(&mut self, event: UnitEvent) -> UnitAction {
        match event {
            UnitEvent::Begin if self.protocol.rules.keeps(Rule::EndedByLaterRegistry) => {
                return UnitAction::ReadRing;
            }
            UnitEvent::Begin => return UnitAction::ReadRegistry,
            UnitEvent::Ring(ring) => self.ring = Some(ring),
            UnitEvent::Registry(registry) => self.registry = Some(registry),
            UnitEvent::RingAnswer(_) => {
                self.ended.pop();
                return self.ends_next();
            }
        }
        match (&self.ring, &self.registry) {
            (Some(ring), Some(registry)) => {
                let is_over = |unit| registry.units().all(|(.., other)| other.id != unit);
                self.ended = ring.units().filter(|(_, unit)| is_over(*unit)).collect();
                self.ends_next()
            }
            (Some(_), None) => UnitAction::ReadRegistry,
            _ => UnitAction::ReadRing,
        }
    }

    fn ends_next(&self) -> UnitAction {
        let next = self.ended.last().copied();
        next.map_or(UnitAction::Over, |(table, unit)| {
            UnitAction::Ring(RingWish::Ended(table, unit))
        })
    }
}

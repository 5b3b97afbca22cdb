//! End of temporary queues (work units): closes their body tables for reuse.
//!
//! A temporary queue is in the registry before it gets a table, and never returns to the registry
//! after its end. So it has ended if the ring lists its table and a registry that was read *after*
//! the ring does not list the queue.

use crate::queues::limits::Protocol;
use crate::queues::names::{BodyTable, QueueId};
use crate::queues::registry::Registry;
use crate::queues::ring::{Ring, RingCommand, RingResponse};
use crate::queues::rules::Rule;

/// Event that the caller reports to [`Ending`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UnitEvent {
    /// The caller starts the task.
    Begin,
    /// The caller has read the ring (list of body tables), with serial consistency.
    Ring(Ring),
    /// The caller has read the registry of queues, with serial consistency.
    Registry(Registry),
    /// Response of the ring (list of body tables) to [`UnitAction::Ring`].
    RingResponse(RingResponse),
}

/// Action that the caller of [`Ending`] executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnitAction {
    /// Read the ring (list of body tables) with serial consistency.
    ReadRing,
    /// Read the registry of queues with serial consistency.
    ReadRegistry,
    /// Send a command to the ring (list of body tables).
    Ring(RingCommand),
    /// The task is finished.
    Over,
}

/// State machine that closes the body tables of all temporary queues that have ended. The tables
/// are [emptied](crate::queues::Emptying) when no segment uses them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ending {
    ring: Option<Ring>,
    registry: Option<Registry>,
    /// Ended queues whose tables are still to be closed, in reverse order.
    ended: Vec<(BodyTable, QueueId)>,
    protocol: Protocol,
}

impl Ending {
    /// Creates the task for all temporary queues with a table for message bodies.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            ring: None,
            registry: None,
            ended: Vec::new(),
            protocol,
        }
    }

    /// Handles an event, and returns the next action of the caller.
    pub fn step(&mut self, event: UnitEvent) -> UnitAction {
        match event {
            UnitEvent::Begin if self.protocol.rules.keeps(Rule::EndedByLaterRegistry) => {
                return UnitAction::ReadRing;
            }
            UnitEvent::Begin => return UnitAction::ReadRegistry,
            UnitEvent::Ring(ring) => self.ring = Some(ring),
            UnitEvent::Registry(registry) => self.registry = Some(registry),
            UnitEvent::RingResponse(_) => {
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
            UnitAction::Ring(RingCommand::Ended(table, unit))
        })
    }
}

//! Work units that have ended give their tables back.
//!
//! A unit has its place in the registry before it has a table, and is in no registry again once it has ended. So when the
//! ring says that a unit has a table, and a registry that was read *after* that has no such unit, it is over.

use crate::queues::limits::Protocol;
use crate::queues::names::{BodyTable, QueueId};
use crate::queues::registry::Registry;
use crate::queues::ring::{Ring, RingAnswer, RingWish};
use crate::queues::rules::Rule;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UnitEvent {
    /// It can begin.
    Begin,
    /// The ring as it was read, serially.
    Ring(Ring),
    /// The registry as it was read, serially.
    Registry(Registry),
    /// The ring answered.
    RingAnswer(RingAnswer),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnitAction {
    /// Read the ring, serially.
    ReadRing,
    /// Read the registry, serially.
    ReadRegistry,
    /// Ask the ring.
    Ring(RingWish),
    /// It is over.
    Over,
}

/// The tables of all units that have ended are closed, to be [emptied](crate::queues::Emptying) when nothing refers to them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ending {
    ring: Option<Ring>,
    registry: Option<Registry>,
    /// The last one first.
    ended: Vec<(BodyTable, QueueId)>,
    protocol: Protocol,
}

impl Ending {
    /// Of whatever units have a table.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            ring: None,
            registry: None,
            ended: Vec::new(),
            protocol,
        }
    }

    /// What is to be done about what happened.
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

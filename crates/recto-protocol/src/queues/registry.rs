//! Registry of a keyspace: its queues with their options, and the slot (reusable row) of each
//! queue.
//!
//! ```text
//!  free ► queue ► deleting: heads learn of it, live segments leave ► free ► another queue …
//! ```
//!
//! Later queues reuse the shard manifests and versioned cells of a slot, while some processes may
//! still know an old registry. Each use of a slot therefore has an epoch ([`Tenure`]), which is
//! greater than all earlier ones. A process that knows only an older epoch than the shard's
//! manifest cannot open a segment there. A slot is free again when all of its manifests know the
//! epoch of the deletion, and have no live segments.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_api::queues::{QueueSettings, QueueTableSettings};

use crate::queues::cas_loop::Register;
use crate::queues::limits::{MAX_DATA_CENTRE_LENGTH, Protocol};
use crate::queues::names::{Micros, Place, QueueId, Shard, Tenure, Version};
use crate::queues::options::{OptionError, QueueName, QueueOptions, StoreOptions};

/// Registry of a keyspace: its queues with their options, and the slot (reusable row) of each
/// queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Registry {
    pub(crate) version: Version,
    /// Options of all queues of the store; `None`: they were never set, and no queue was ever
    /// created.
    pub(crate) options: Option<StoreOptions>,
    pub(crate) data_centre: Option<Arc<str>>,
    /// Slots (rows of the registry, each for one queue at a time), with indexes from 0 without
    /// gaps. A slot is never removed.
    pub(crate) places: BTreeMap<Place, Arc<PlaceRow>>,
}

/// Row of the registry of queues: a slot, which one queue after the other uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlaceRow {
    /// Epoch: id of the present use of the slot by one queue, greater than the epochs of all
    /// earlier uses.
    pub tenure: Tenure,
    /// Version of the registry that last changed this row.
    pub changed: Version,
    /// Number of shard manifests of the slot: the largest number of shards of any queue that had
    /// it.
    pub shards: u16,
    /// Present owner of the slot (row of the registry).
    pub held: Held,
}

/// Owner of a slot (reusable row) of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Held {
    /// No owner: the next queue or work unit can take the slot (row of the registry).
    Free,
    /// An existing queue.
    Queue(Queue),
    /// An existing work unit (temporary queue).
    Unit(Unit),
    /// A deleted queue or an ended work unit, until its messages are removed. Another queue or unit
    /// may already have its name.
    Deleting {
        /// Id of the queue or unit.
        id: QueueId,
        /// Name of the deleted queue or unit.
        name: QueueName,
        /// Time of the deletion, in microseconds since 1970.
        since: Micros,
    },
}

/// Existing queue, with its options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Random id, which no other queue or unit ever has.
    pub id: QueueId,
    /// Name of the queue.
    pub name: QueueName,
    /// Time of creation, in microseconds since 1970.
    pub created: Micros,
    /// Options of the queue.
    pub options: QueueOptions,
}

/// Work unit: a temporary queue for a part of a queue's work. When it ends, its remaining messages
/// are dropped. It has the options of its queue, and a [body table](crate::queues::Ring::unit) of
/// its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unit {
    /// Random id, which no other queue or unit ever has.
    pub id: QueueId,
    /// Name of the work unit, unique in its queue.
    pub name: QueueName,
    /// Id of the queue to which the work belongs.
    pub queue: QueueId,
    /// Time when the unit began, in microseconds since 1970.
    pub begun: Micros,
}

/// Command to the registry of queues.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RegistryCommand {
    /// Create a queue, unless a queue with this name exists.
    Create {
        /// New random id of the queue.
        id: QueueId,
        /// Name of the queue.
        name: QueueName,
        /// Options of the queue.
        options: QueueOptions,
    },
    /// Change options of a queue.
    Change {
        /// Id of the queue.
        queue: QueueId,
        /// Version of the registry that must have [last changed](PlaceRow::changed) the queue, or
        /// the command is rejected; `None`: any version.
        expected: Option<Version>,
        /// Changed options.
        change: QueueSettings,
    },
    /// Begin a work unit (temporary queue) of a queue, unless a unit with this name exists.
    Begin {
        /// New random id of the unit.
        id: QueueId,
        /// Id of the queue to which the work belongs.
        queue: QueueId,
        /// Name of the unit.
        name: QueueName,
    },
    /// Delete a queue with all of its work units, or end a work unit. Their slots must then be
    /// cleared.
    Delete(QueueId),
    /// Free a slot (row of the registry): its shard manifests all know this epoch of the deletion,
    /// and have no live segments.
    Cleared(Place, Tenure),
    /// Change the options that all queues of the store share.
    Configure(QueueTableSettings),
    /// From now on, let only servers in this data center serve the queues of the keyspace.
    Serve(Arc<str>),
}

/// Response of the registry to a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RegistryResponse {
    /// The command is done.
    Done,
    /// The command has created the queue or begun the unit in this slot (row of the registry), now
    /// or by an earlier sending.
    Created(Place),
    /// This slot already has a queue with the name and the options, or a unit with the name.
    Exists(Place),
    /// The queue with this name has other options, or another queue or unit has this id. The value
    /// is the slot of that queue or unit.
    Differs(Place),
    /// The queue has the requested options. The value is the version of the registry that last
    /// changed the queue.
    Changed(Version),
    /// The queue was changed since the expected version. The value is the version of the registry
    /// that last changed it.
    Outdated(Version),
    /// The queue, the work unit or the slot (row of the registry) does not exist.
    NoQueue,
    /// The queue cannot be deleted, because it is the dead-letter queue of this queue.
    NeededBy(QueueName),
    /// All slots are in use, or are being cleared after deletions. Or the number of work units is
    /// at its maximum.
    Full,
    /// The options are invalid.
    Refused(OptionError),
    /// Another data center serves the queues of the keyspace.
    ServedBy(Arc<str>),
}

/// Inputs for the evaluation of commands to the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegistryContext {
    /// Time of the wall clock, in microseconds since 1970.
    pub now: Micros,
    /// Limits and rules of the protocol.
    pub protocol: Protocol,
}

impl Registry {
    /// Returns the registry of a keyspace that never had a queue.
    pub fn absent() -> Self {
        Self {
            version: 0,
            options: None,
            data_centre: None,
            places: BTreeMap::new(),
        }
    }

    /// Returns the options that all queues of the store share, or their defaults.
    pub fn options(&self) -> StoreOptions {
        self.options.unwrap_or_default()
    }

    /// Returns the options that all queues of the store share; `None`: they were never set, and no
    /// queue was ever created.
    pub fn said_options(&self) -> Option<StoreOptions> {
        self.options
    }

    /// Returns the name of the data center whose servers serve the queues; `None`: any data center.
    pub fn data_centre(&self) -> Option<&str> {
        self.data_centre.as_deref()
    }

    /// Returns all slots, including free ones and those that are being cleared. A fence (message to
    /// all shards about a closing body table) must reach the shard manifests of all slots.
    pub fn places(&self) -> impl Iterator<Item = (Place, &PlaceRow)> {
        self.places.iter().map(|(place, row)| (*place, &**row))
    }

    /// Returns the registry's row of a slot; `None` if the slot does not exist.
    pub fn place(&self, place: Place) -> Option<&PlaceRow> {
        self.places.get(&place).map(|row| &**row)
    }

    /// Returns all existing queues, in the order of their slots.
    pub fn queues(&self) -> impl Iterator<Item = (Place, &PlaceRow, &Queue)> {
        self.places().filter_map(|(place, row)| match &row.held {
            Held::Queue(queue) => Some((place, row, queue)),
            _ => None,
        })
    }

    /// Returns the queue with this name, with its slot.
    pub fn named(&self, name: &str) -> Option<(Place, &PlaceRow, &Queue)> {
        self.queues().find(|(.., queue)| queue.name.as_str() == name)
    }

    /// Returns the queue with this id, with its slot.
    pub fn queue(&self, id: QueueId) -> Option<(Place, &PlaceRow, &Queue)> {
        self.queues().find(|(.., queue)| queue.id == id)
    }

    /// Returns all existing work units (temporary queues), in the order of their slots.
    pub fn units(&self) -> impl Iterator<Item = (Place, &PlaceRow, &Unit)> {
        self.places().filter_map(|(place, row)| match &row.held {
            Held::Unit(unit) => Some((place, row, unit)),
            _ => None,
        })
    }

    /// Returns the work unit with this name in the queue with this id.
    pub fn unit(&self, queue: QueueId, name: &str) -> Option<(Place, &PlaceRow, &Unit)> {
        self.units()
            .find(|(.., unit)| unit.queue == queue && unit.name.as_str() == name)
    }

    /// Returns the slot of the queue or work unit with this id, even after its deletion, until the
    /// slot is cleared.
    fn held_by(&self, id: QueueId) -> Option<(Place, &PlaceRow)> {
        self.places().find(|(_, row)| row.held.id() == Some(id))
    }

    /// Returns the rows that the newest version of the registry changed. The conditional write of
    /// this version puts them together with the static columns.
    pub fn changed(&self) -> impl Iterator<Item = (Place, &PlaceRow)> {
        self.places().filter(|(_, row)| row.changed == self.version)
    }

    /// Returns the version of the registry after the change that is being computed.
    fn next(&self) -> Version {
        self.version + 1
    }

    fn put(&mut self, place: Place, row: PlaceRow) {
        self.places.insert(place, Arc::new(row));
    }

    /// Returns a free slot (row of the registry), or the index of an additional one; `None` if the
    /// number of slots is at its maximum.
    fn free(&self, context: &RegistryContext) -> Option<Place> {
        let mut free = self.places().filter(|(_, row)| row.held == Held::Free);
        let more = self.places.len() < context.protocol.places;
        let free = free.next().map(|(place, _)| place);
        free.or(more.then_some(Place(self.places.len() as u32)))
    }

    /// Checks that a queue with this name can have these options, given the existing queues.
    fn check(&self, name: &QueueName, options: &QueueOptions) -> Result<(), OptionError> {
        options.check(name)?;
        let Some(dead) = &options.dead_letters else {
            return Ok(());
        };
        let named = self.named(dead.queue.as_str());
        let (.., queue) = named.ok_or_else(|| OptionError::NoQueue {
            field: "dead_letters.queue",
            name: dead.queue.clone(),
        })?;
        options.check_dead_letters(&queue.options)?;
        self.check_circle(name, options)
    }

    /// Rejects options by which dead letters would return to the queue through other queues. If an
    /// earlier release allowed such a cycle, the other options of its queues can still be changed.
    fn check_circle(&self, name: &QueueName, options: &QueueOptions) -> Result<(), OptionError> {
        let there = self.named(name.as_str());
        let there = there.and_then(|(.., queue)| queue.options.dead_letters.as_ref());
        let mut dead = options.dead_letters.as_ref();
        if there.map(|dead| &dead.queue) == dead.map(|dead| &dead.queue) {
            return Ok(());
        }
        // Limit the number of steps, because the dead-letter queues may form a cycle without this
        // queue.
        for _ in 0..self.places.len() {
            let Some(next) = dead.and_then(|dead| self.named(dead.queue.as_str())) else {
                break;
            };
            let (.., queue) = next;
            if queue.name == *name {
                return Err(OptionError::Circle {
                    field: "dead_letters.queue",
                });
            }
            dead = queue.options.dead_letters.as_ref();
        }
        Ok(())
    }

    fn create(
        &mut self,
        id: QueueId,
        name: &QueueName,
        options: &QueueOptions,
        context: &RegistryContext,
    ) -> RegistryResponse {
        if let Some((place, _, queue)) = self.named(name.as_str()) {
            return match queue {
                queue if queue.id == id => RegistryResponse::Created(place),
                queue if queue.options == *options => RegistryResponse::Exists(place),
                _ => RegistryResponse::Differs(place),
            };
        }
        if let Some(response) = self.known(id) {
            return response;
        }
        if let Err(error) = self.check(name, options) {
            return RegistryResponse::Refused(error);
        }
        let queue = Queue {
            id,
            name: name.clone(),
            created: context.now,
            options: options.clone(),
        };
        self.take_place(Held::Queue(queue), options.shards, context)
    }

    /// Returns the response to a creation whose id already has a slot, also if it was deleted
    /// since; `None` if the id is new.
    fn known(&self, id: QueueId) -> Option<RegistryResponse> {
        let (place, row) = self.held_by(id)?;
        Some(match row.deleting() {
            Some(_) => RegistryResponse::Created(place),
            None => RegistryResponse::Differs(place),
        })
    }

    fn take_place(&mut self, held: Held, shards: u16, context: &RegistryContext) -> RegistryResponse {
        let Some(place) = self.free(context) else {
            return RegistryResponse::Full;
        };
        let before = self.place(place).map_or(0, |row| row.shards);
        let row = PlaceRow {
            tenure: Tenure(self.next()),
            changed: self.next(),
            shards: shards.max(before),
            held,
        };
        self.options = Some(self.options());
        self.put(place, row);
        RegistryResponse::Created(place)
    }

    fn begin(
        &mut self,
        id: QueueId,
        queue: QueueId,
        name: &QueueName,
        context: &RegistryContext,
    ) -> RegistryResponse {
        if let Some((place, _, unit)) = self.unit(queue, name.as_str()) {
            return if unit.id == id {
                RegistryResponse::Created(place)
            } else {
                RegistryResponse::Exists(place)
            };
        }
        if let Some(response) = self.known(id) {
            return response;
        }
        let Some((.., whose)) = self.queue(queue) else {
            return RegistryResponse::NoQueue;
        };
        if self.units().count() >= usize::from(self.options().units) {
            return RegistryResponse::Full;
        }
        let shards = whose.options.shards;
        let unit = Unit {
            id,
            name: name.clone(),
            queue,
            begun: context.now,
        };
        self.take_place(Held::Unit(unit), shards, context)
    }

    fn change(
        &mut self,
        id: QueueId,
        expected: Option<Version>,
        change: &QueueSettings,
        was_sent: bool,
    ) -> RegistryResponse {
        let Some((place, row, queue)) = self.queue(id) else {
            return RegistryResponse::NoQueue;
        };
        let options = match queue.options.changed_by(change) {
            Ok(options) => options,
            Err(error) => return RegistryResponse::Refused(error),
        };
        let is_as_expected = expected.is_none_or(|expected| expected == row.changed);
        if queue.options == options && (is_as_expected || was_sent) {
            return RegistryResponse::Changed(row.changed);
        }
        if !is_as_expected {
            return RegistryResponse::Outdated(row.changed);
        }
        let checked = queue.options.check_change(&options);
        if let Err(error) = checked.and_then(|()| self.check(&queue.name, &options)) {
            return RegistryResponse::Refused(error);
        }
        let held = Held::Queue(Queue {
            options,
            ..queue.clone()
        });
        let changed = self.next();
        let row = PlaceRow {
            changed,
            held,
            ..row.clone()
        };
        self.put(place, row);
        RegistryResponse::Changed(changed)
    }

    fn delete(&mut self, id: QueueId, was_sent: bool, context: &RegistryContext) -> RegistryResponse {
        let known = self.held_by(id);
        let Some((place, row)) = known.filter(|(_, row)| row.deleting().is_none()) else {
            return if was_sent || known.is_some() {
                RegistryResponse::Done
            } else {
                RegistryResponse::NoQueue
            };
        };
        let names = |other: &Queue| {
            let dead = other.options.dead_letters.as_ref();
            dead.is_some_and(|dead| matches!(&row.held, Held::Queue(queue) if queue.name == dead.queue))
        };
        if let Some((.., other)) = self.queues().find(|(.., other)| names(other)) {
            return RegistryResponse::NeededBy(other.name.clone());
        }
        let units = self.units().filter(|(.., unit)| unit.queue == id);
        let places: Vec<_> = units.map(|(place, ..)| place).chain([place]).collect();
        for place in places {
            self.leave(place, context);
        }
        RegistryResponse::Done
    }

    /// Takes the slot (row of the registry) from its owner, and marks the slot as being cleared.
    fn leave(&mut self, place: Place, context: &RegistryContext) {
        let Some(row) = self.place(place) else { return };
        let (id, name) = match &row.held {
            Held::Queue(queue) => (queue.id, queue.name.clone()),
            Held::Unit(unit) => (unit.id, unit.name.clone()),
            Held::Free | Held::Deleting { .. } => return,
        };
        let row = PlaceRow {
            tenure: Tenure(self.next()),
            changed: self.next(),
            shards: row.shards,
            held: Held::Deleting {
                id,
                name,
                since: context.now,
            },
        };
        self.put(place, row);
    }

    fn cleared(&mut self, place: Place, tenure: Tenure) -> RegistryResponse {
        let Some(row) = self.place(place) else {
            return RegistryResponse::NoQueue;
        };
        // The epoch of a deletion is the version of the registry that stored it. If the epoch is
        // above the present version, the deletion is not stored yet, so do not free the slot.
        let is_known = row.tenure == tenure && tenure.0 <= self.version;
        if is_known && row.deleting().is_some() {
            let row = PlaceRow {
                changed: self.next(),
                held: Held::Free,
                ..row.clone()
            };
            self.put(place, row);
        }
        RegistryResponse::Done
    }

    fn configure(&mut self, change: &QueueTableSettings) -> RegistryResponse {
        match self.options().changed_by(change) {
            Ok(options) => {
                self.options = Some(options);
                RegistryResponse::Done
            }
            Err(error) => RegistryResponse::Refused(error),
        }
    }

    fn serve(&mut self, data_centre: &Arc<str>) -> RegistryResponse {
        let length = data_centre.len();
        if length == 0 || length > MAX_DATA_CENTRE_LENGTH {
            return RegistryResponse::Refused(OptionError::Conflict {
                field: "data_centre",
                reason: "the name is empty, or longer than 255 bytes",
            });
        }
        match &self.data_centre {
            Some(other) if other != data_centre => RegistryResponse::ServedBy(other.clone()),
            _ => {
                self.data_centre = Some(data_centre.clone());
                RegistryResponse::Done
            }
        }
    }
}

impl Held {
    /// Returns the id of the owner, also of a deleted one; `None` if the slot is free.
    pub fn id(&self) -> Option<QueueId> {
        match self {
            Self::Free => None,
            Self::Queue(queue) => Some(queue.id),
            Self::Unit(unit) => Some(unit.id),
            Self::Deleting { id, .. } => Some(*id),
        }
    }
}

impl PlaceRow {
    /// Returns the indexes of all shards of the slot that may have a manifest (list of live
    /// segments).
    pub fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..self.shards).map(Shard)
    }

    /// Returns the epoch of the deletion, if the slot (row of the registry) is being cleared;
    /// otherwise `None`.
    pub fn deleting(&self) -> Option<Tenure> {
        matches!(self.held, Held::Deleting { .. }).then_some(self.tenure)
    }
}

impl Register for Registry {
    type Command = RegistryCommand;
    type Response = RegistryResponse;
    type Context<'a> = RegistryContext;

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(
        &mut self,
        command: &RegistryCommand,
        was_sent: bool,
        context: &RegistryContext,
    ) -> RegistryResponse {
        match command {
            RegistryCommand::Create { id, name, options } => self.create(*id, name, options, context),
            RegistryCommand::Change {
                queue,
                expected,
                change,
            } => self.change(*queue, *expected, change, was_sent),
            RegistryCommand::Begin { id, queue, name } => self.begin(*id, *queue, name, context),
            RegistryCommand::Delete(queue) => self.delete(*queue, was_sent, context),
            RegistryCommand::Cleared(place, tenure) => self.cleared(*place, *tenure),
            RegistryCommand::Configure(change) => self.configure(change),
            RegistryCommand::Serve(data_centre) => self.serve(data_centre),
        }
    }
}

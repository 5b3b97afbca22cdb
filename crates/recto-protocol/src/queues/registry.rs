//! The queues of a keyspace: which there are, what they are like, and which place each of them has.
//!
//! ```text
//!  free ► queue ► deleting: its heads learn that, and what is live in them leaves their lists ► free ► another queue …
//! ```
//!
//! Heads and registers of a place recur, and processes that know an old registry may be about. So each use of a place has a
//! [`Tenure`]; of two the later one is greater, and who knows an older one than a head opens nothing there. A place is free
//! again when every head of it knows the tenure of the deletion, and none has a live segment.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_api::queues::{QueueSettings, QueueTableSettings};

use crate::queues::limits::{MAX_DATA_CENTRE_LENGTH, Protocol};
use crate::queues::names::{Micros, Place, QueueId, Shard, Tenure, Version};
use crate::queues::options::{OptionError, QueueName, QueueOptions, StoreOptions};
use crate::queues::round::Register;

/// The registry of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Registry {
    pub(crate) version: Version,
    /// None: nobody said anything, and there never was a queue.
    pub(crate) options: Option<StoreOptions>,
    pub(crate) data_centre: Option<Arc<str>>,
    /// From 0 on without a gap: a place is never given up.
    pub(crate) places: BTreeMap<Place, Arc<PlaceRow>>,
}

/// What is said of a place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlaceRow {
    /// Its newest use.
    pub tenure: Tenure,
    /// The version of the registry by which the row became as it is.
    pub changed: Version,
    /// The most shards that a queue here ever had: so many heads there are.
    pub shards: u16,
    /// Whose it is.
    pub held: Held,
}

/// Whose a place is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Held {
    /// Nobody's: the next queue takes it.
    Free,
    /// A queue's.
    Queue(Queue),
    /// A work unit's.
    Unit(Unit),
    /// A queue's that was deleted, or a unit's that has ended, until nothing of it is left. Its name may be another's by then.
    Deleting {
        /// Which one.
        id: QueueId,
        /// What it was called.
        name: QueueName,
        /// Since when.
        since: Micros,
    },
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue {
    /// It and no other, whatever it is called.
    pub id: QueueId,
    /// What it is called.
    pub name: QueueName,
    /// When it was made.
    pub created: Micros,
    /// What it is like.
    pub options: QueueOptions,
}

/// A part of a queue's work that ends at once, whatever is left of it. It is like its queue, and its bodies lie in a table of
/// its own: [`Ring::unit`](crate::queues::Ring::unit).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unit {
    /// It and no other, whatever it is called.
    pub id: QueueId,
    /// What it is called, in its queue.
    pub name: QueueName,
    /// Whose work it is.
    pub queue: QueueId,
    /// When it began.
    pub begun: Micros,
}

/// What a registry is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RegistryWish {
    /// That there is a queue of this name.
    Create {
        /// Which nothing else has.
        id: QueueId,
        /// What it is called.
        name: QueueName,
        /// What it is like.
        options: QueueOptions,
    },
    /// The queue's options are others from now on.
    Change {
        /// Which one.
        queue: QueueId,
        /// What its row [says](PlaceRow::changed) of when it was changed last, if it must not have been since.
        expected: Option<Version>,
        /// Options to change.
        change: QueueSettings,
    },
    /// That the queue has a work unit of this name.
    Begin {
        /// Which nothing else has.
        id: QueueId,
        /// Whose work it is.
        queue: QueueId,
        /// What it is called.
        name: QueueName,
    },
    /// The queue is gone with all of its units, or the unit has ended, and its place is cleared.
    Delete(QueueId),
    /// Every head of the place knows this tenure, of a deletion, and has no live segment.
    Cleared(Place, Tenure),
    /// The options of the store are others from now on.
    Configure(QueueTableSettings),
    /// The keyspace's queues are served by servers of this data centre, and no other.
    Serve(Arc<str>),
}

/// What is said of that.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RegistryAnswer {
    /// It is so.
    Done,
    /// The queue was made just now, or the unit has begun.
    Created(Place),
    /// There is one of this name, and it is like that.
    Exists(Place),
    /// There is one of this name, and it is not like that; or one of this id, and it is called otherwise.
    Differs(Place),
    /// The queue is like that; its row says that it was changed by this version.
    Changed(Version),
    /// The queue was changed since, by this version.
    Outdated(Version),
    /// There is no such queue, or no longer.
    NoQueue,
    /// This queue sends its dead letters there.
    NeededBy(QueueName),
    /// There are as many queues, units, and places that are being cleared, as there may be; or as many units.
    Full,
    /// No queue, and no store, can be like that.
    Refused(OptionError),
    /// Another data centre serves the keyspace's queues.
    ServedBy(Arc<str>),
}

/// What changes are worked out by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegistryContext {
    /// The wall clock.
    pub now: Micros,
    /// Limits and rules.
    pub protocol: Protocol,
}

impl Registry {
    /// The one of a keyspace that never had a queue.
    pub fn absent() -> Self {
        Self {
            version: 0,
            options: None,
            data_centre: None,
            places: BTreeMap::new(),
        }
    }

    /// What holds for all queues.
    pub fn options(&self) -> StoreOptions {
        self.options.unwrap_or_default()
    }

    /// The same, if anybody has said so, or made a queue.
    pub fn said_options(&self) -> Option<StoreOptions> {
        self.options
    }

    /// Which data centre serves the queues, if that matters.
    pub fn data_centre(&self) -> Option<&str> {
        self.data_centre.as_deref()
    }

    /// All places, those that are free and those that are being cleared among them. A fence goes over all of their heads.
    pub fn places(&self) -> impl Iterator<Item = (Place, &PlaceRow)> {
        self.places.iter().map(|(place, row)| (*place, &**row))
    }

    /// What is said of a place.
    pub fn place(&self, place: Place) -> Option<&PlaceRow> {
        self.places.get(&place).map(|row| &**row)
    }

    /// All queues, by place.
    pub fn queues(&self) -> impl Iterator<Item = (Place, &PlaceRow, &Queue)> {
        self.places().filter_map(|(place, row)| match &row.held {
            Held::Queue(queue) => Some((place, row, queue)),
            _ => None,
        })
    }

    /// The queue of this name.
    pub fn named(&self, name: &str) -> Option<(Place, &PlaceRow, &Queue)> {
        self.queues().find(|(.., queue)| queue.name.as_str() == name)
    }

    /// This queue.
    pub fn queue(&self, id: QueueId) -> Option<(Place, &PlaceRow, &Queue)> {
        self.queues().find(|(.., queue)| queue.id == id)
    }

    /// All work units, by place.
    pub fn units(&self) -> impl Iterator<Item = (Place, &PlaceRow, &Unit)> {
        self.places().filter_map(|(place, row)| match &row.held {
            Held::Unit(unit) => Some((place, row, unit)),
            _ => None,
        })
    }

    /// The unit of this name that a queue has.
    pub fn unit(&self, queue: QueueId, name: &str) -> Option<(Place, &PlaceRow, &Unit)> {
        self.units()
            .find(|(.., unit)| unit.queue == queue && unit.name.as_str() == name)
    }

    /// The place that a queue or a unit of this id has, or had until it was deleted.
    fn held_by(&self, id: QueueId) -> Option<(Place, &PlaceRow)> {
        self.places().find(|(_, row)| row.held.id() == Some(id))
    }

    /// The rows that the newest version changed: what a conditional write puts beside the static columns.
    pub fn changed(&self) -> impl Iterator<Item = (Place, &PlaceRow)> {
        self.places().filter(|(_, row)| row.changed == self.version)
    }

    /// The version that the write has which is worked out.
    fn next(&self) -> Version {
        self.version + 1
    }

    fn put(&mut self, place: Place, row: PlaceRow) {
        self.places.insert(place, Arc::new(row));
    }

    /// A free place, or one more.
    fn free(&self, context: &RegistryContext) -> Option<Place> {
        let mut free = self.places().filter(|(_, row)| row.held == Held::Free);
        let more = self.places.len() < context.protocol.places;
        let free = free.next().map(|(place, _)| place);
        free.or(more.then_some(Place(self.places.len() as u32)))
    }

    /// Whether a queue of this name can be like that, beside those that there are.
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

    /// Rejects dead letters that would come back to the queue by other queues. A queue that is part of a circle of an earlier release
    /// may change its other options.
    fn check_circle(&self, name: &QueueName, options: &QueueOptions) -> Result<(), OptionError> {
        let there = self.named(name.as_str());
        let there = there.and_then(|(.., queue)| queue.options.dead_letters.as_ref());
        let mut dead = options.dead_letters.as_ref();
        if there.map(|dead| &dead.queue) == dead.map(|dead| &dead.queue) {
            return Ok(());
        }
        // A circle without this queue must not be followed for ever.
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
    ) -> RegistryAnswer {
        if let Some((place, _, queue)) = self.named(name.as_str()) {
            return match queue {
                queue if queue.id == id => RegistryAnswer::Created(place),
                queue if queue.options == *options => RegistryAnswer::Exists(place),
                _ => RegistryAnswer::Differs(place),
            };
        }
        if let Some(answer) = self.known(id) {
            return answer;
        }
        if let Err(error) = self.check(name, options) {
            return RegistryAnswer::Refused(error);
        }
        let queue = Queue {
            id,
            name: name.clone(),
            created: context.now,
            options: options.clone(),
        };
        self.take_place(Held::Queue(queue), options.shards, context)
    }

    /// What is said of one that has a place already, or had it until it was deleted.
    fn known(&self, id: QueueId) -> Option<RegistryAnswer> {
        let (place, row) = self.held_by(id)?;
        Some(match row.deleting() {
            Some(_) => RegistryAnswer::Created(place),
            None => RegistryAnswer::Differs(place),
        })
    }

    fn take_place(&mut self, held: Held, shards: u16, context: &RegistryContext) -> RegistryAnswer {
        let Some(place) = self.free(context) else {
            return RegistryAnswer::Full;
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
        RegistryAnswer::Created(place)
    }

    fn begin(
        &mut self,
        id: QueueId,
        queue: QueueId,
        name: &QueueName,
        context: &RegistryContext,
    ) -> RegistryAnswer {
        if let Some((place, _, unit)) = self.unit(queue, name.as_str()) {
            return if unit.id == id {
                RegistryAnswer::Created(place)
            } else {
                RegistryAnswer::Exists(place)
            };
        }
        if let Some(answer) = self.known(id) {
            return answer;
        }
        let Some((.., whose)) = self.queue(queue) else {
            return RegistryAnswer::NoQueue;
        };
        if self.units().count() >= usize::from(self.options().units) {
            return RegistryAnswer::Full;
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
    ) -> RegistryAnswer {
        let Some((place, row, queue)) = self.queue(id) else {
            return RegistryAnswer::NoQueue;
        };
        let options = match queue.options.changed_by(change) {
            Ok(options) => options,
            Err(error) => return RegistryAnswer::Refused(error),
        };
        let is_as_expected = expected.is_none_or(|expected| expected == row.changed);
        if queue.options == options && (is_as_expected || was_sent) {
            return RegistryAnswer::Changed(row.changed);
        }
        if !is_as_expected {
            return RegistryAnswer::Outdated(row.changed);
        }
        let checked = queue.options.check_change(&options);
        if let Err(error) = checked.and_then(|()| self.check(&queue.name, &options)) {
            return RegistryAnswer::Refused(error);
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
        RegistryAnswer::Changed(changed)
    }

    fn delete(&mut self, id: QueueId, was_sent: bool, context: &RegistryContext) -> RegistryAnswer {
        let known = self.held_by(id);
        let Some((place, row)) = known.filter(|(_, row)| row.deleting().is_none()) else {
            return if was_sent || known.is_some() {
                RegistryAnswer::Done
            } else {
                RegistryAnswer::NoQueue
            };
        };
        let names = |other: &Queue| {
            let dead = other.options.dead_letters.as_ref();
            dead.is_some_and(|dead| matches!(&row.held, Held::Queue(queue) if queue.name == dead.queue))
        };
        if let Some((.., other)) = self.queues().find(|(.., other)| names(other)) {
            return RegistryAnswer::NeededBy(other.name.clone());
        }
        let units = self.units().filter(|(.., unit)| unit.queue == id);
        let places: Vec<_> = units.map(|(place, ..)| place).chain([place]).collect();
        for place in places {
            self.leave(place, context);
        }
        RegistryAnswer::Done
    }

    /// What has a place has it no more, and it is to be cleared.
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

    fn cleared(&mut self, place: Place, tenure: Tenure) -> RegistryAnswer {
        let Some(row) = self.place(place) else {
            return RegistryAnswer::NoQueue;
        };
        // A deletion that is not written yet is unknown.
        let is_known = row.tenure == tenure && tenure.0 <= self.version;
        if is_known && row.deleting().is_some() {
            let row = PlaceRow {
                changed: self.next(),
                held: Held::Free,
                ..row.clone()
            };
            self.put(place, row);
        }
        RegistryAnswer::Done
    }

    fn configure(&mut self, change: &QueueTableSettings) -> RegistryAnswer {
        match self.options().changed_by(change) {
            Ok(options) => {
                self.options = Some(options);
                RegistryAnswer::Done
            }
            Err(error) => RegistryAnswer::Refused(error),
        }
    }

    fn serve(&mut self, data_centre: &Arc<str>) -> RegistryAnswer {
        let length = data_centre.len();
        if length == 0 || length > MAX_DATA_CENTRE_LENGTH {
            return RegistryAnswer::Refused(OptionError::Conflict {
                field: "data_centre",
                reason: "the name is empty, or longer than 255 bytes",
            });
        }
        match &self.data_centre {
            Some(other) if other != data_centre => RegistryAnswer::ServedBy(other.clone()),
            _ => {
                self.data_centre = Some(data_centre.clone());
                RegistryAnswer::Done
            }
        }
    }
}

impl Held {
    /// The queue or unit that has the place, or had it until it was deleted.
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
    /// The shards whose heads there may be.
    pub fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..self.shards).map(Shard)
    }

    /// Of which deletion the place is to be cleared, if it is.
    pub fn deleting(&self) -> Option<Tenure> {
        matches!(self.held, Held::Deleting { .. }).then_some(self.tenure)
    }
}

impl Register for Registry {
    type Wish = RegistryWish;
    type Answer = RegistryAnswer;
    type Context<'a> = RegistryContext;

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, wish: &RegistryWish, was_sent: bool, context: &RegistryContext) -> RegistryAnswer {
        match wish {
            RegistryWish::Create { id, name, options } => self.create(*id, name, options, context),
            RegistryWish::Change {
                queue,
                expected,
                change,
            } => self.change(*queue, *expected, change, was_sent),
            RegistryWish::Begin { id, queue, name } => self.begin(*id, *queue, name, context),
            RegistryWish::Delete(queue) => self.delete(*queue, was_sent, context),
            RegistryWish::Cleared(place, tenure) => self.cleared(*place, *tenure),
            RegistryWish::Configure(change) => self.configure(change),
            RegistryWish::Serve(data_centre) => self.serve(data_centre),
        }
    }
}

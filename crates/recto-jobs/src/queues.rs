//! All queues of a store: made, changed, deleted, found.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recto_api::queues::{QueueSettings, QueueTableSettings};
use recto_model::Environment;
use recto_protocol::queues::{
    Address, OptionError, Place, PlaceRow, QueueId, QueueName, QueueOptions, Register as _, Registry,
    RegistryAnswer, RegistryWish, StoreOptions, Version,
};
use recto_store::Store;
use tokio::sync::watch;

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::options::{Destination, ShardOptions};
use crate::place::QueueStore;
use crate::registry::RegistryGround;
use crate::ring::{Keeper, keeper};
use crate::rounds::Rounds;
use crate::shards::Shards;
use crate::upkeep::{self, Upkeep};

/// The queues of a store. Cheap to clone.
#[derive(Clone)]
pub struct Queues(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) queues: QueueStore,
    pub(crate) registry: Arc<Rounds<RegistryGround>>,
    /// Where bodies lie in a ring of tables.
    pub(crate) keeper: Option<Arc<Keeper>>,
    /// Of the queues that were looked for: so that what is known of one outlives who uses it.
    kept: Mutex<HashMap<QueueId, Shards>>,
    _upkeep: Upkeep,
}

/// A queue, as it was when it was looked for. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    /// It and no other, whatever it is called.
    pub id: QueueId,
    /// What it is called.
    pub name: QueueName,
    /// Of a work unit, what that is called in its queue.
    pub unit: Option<QueueName>,
    /// What it is like.
    pub options: QueueOptions,
    /// When it was changed last: another one for each change.
    pub changed: Version,
    /// Where its messages are.
    pub shards: Shards,
}

/// What became of making a queue.
#[derive(Clone)]
pub enum Created {
    /// It was made.
    New(Queue),
    /// It was there, and is like that.
    There(Queue),
}

impl Queue {
    /// The queue's, and the unit's.
    pub(crate) fn names(&self) -> (&QueueName, Option<&QueueName>) {
        (&self.name, self.unit.as_ref())
    }
}

impl Queues {
    /// The queues of a store, whose tables are made if it has none. A request may take so long. Once in a process: what one knows of a
    /// store another does not read again. As long as somebody has them,
    /// messages that have expired go, those that were received too often are dead letters, and what could not be cleared of a deleted
    /// queue is tried again.
    ///
    /// # Errors
    /// A table cannot be made, or is another program's.
    pub async fn open(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        Self::over(QueueStore::open(store, environment, request_timeout).await?).await
    }

    /// The same of a store that has their tables; none: it has not, and nothing is made.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub async fn open_there(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Option<Self>> {
        match QueueStore::open_there(store, environment, request_timeout).await? {
            Some(queues) => Self::over(queues).await.map(Some),
            None => Ok(None),
        }
    }

    /// Those of a store that is open.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn over(queues: QueueStore) -> Result<Self> {
        let keeper = queues.has_ring().then(|| Arc::new(Keeper::new(&queues)));
        let (open, ended) = Self::of(queues, keeper);
        if !open.0.queues.store.limits().remote {
            // What a process that ended had begun to delete. Where others make changes, too, the upkeep does that: who opens
            // queues there for one request need not read what it does not ask for.
            open.clear_deleted().await?;
            open.record_time().await;
        }
        upkeep::begin(&open.0, ended.clone());
        if let Some(keeper) = &open.0.keeper {
            keeper::begin(Arc::clone(keeper), Arc::clone(&open.0.registry), ended);
        }
        Ok(open)
    }

    /// What queues a store has, for who only looks at them: nothing is made, and nothing looked after. One without their tables
    /// has none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn look(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        let queues = QueueStore::look(store, environment, request_timeout).await?;
        Ok(Self::of(queues, None).0)
    }

    /// Whether the store has the tables of queues.
    pub fn has_tables(&self) -> bool {
        self.0.queues.has_tables
    }

    /// And what hears that nobody has them any more.
    fn of(queues: QueueStore, keeper: Option<Arc<Keeper>>) -> (Self, watch::Receiver<()>) {
        let registry = Rounds::new(RegistryGround {
            queues: queues.clone(),
        });
        let (upkeep, ended) = Upkeep::new();
        let open = Self(Arc::new(Inner {
            queues,
            registry,
            keeper,
            kept: Mutex::default(),
            _upkeep: upkeep,
        }));
        (open, ended)
    }

    /// Changes how often slices end, and the like. Where bodies need no ring, only how many work units there may be matters.
    ///
    /// # Errors
    /// A number is not right, as the message says by its field.
    pub async fn configure(&self, change: impl Into<QueueTableSettings>) -> Result<()> {
        match self.ask(RegistryWish::Configure(change.into())).await? {
            RegistryAnswer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// How often slices end, and the like, as it is now.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn options(&self) -> Result<StoreOptions> {
        self.with_registry(Registry::options).await
    }

    /// Waits until other processes were told of all that was done here, as before this one ends: who waits there would find
    /// what was sent only when it looks again.
    pub async fn has_told(&self) {
        self.0.queues.has_rung().await;
    }

    /// Makes a queue; nothing if there is one of this name that is like that.
    ///
    /// # Errors
    /// There is another of this name, whose options are not like that, as the message says by a field; an option is not right, as the message says by its field; there are as many queues as
    /// there may be.
    pub async fn create(&self, name: &str, options: QueueOptions) -> Result<Created> {
        let name = QueueName::new("name", name)?;
        let options = self.held(options)?;
        let id = QueueId(self.0.queues.random());
        let wish = RegistryWish::Create {
            id,
            name: name.clone(),
            options: options.clone(),
        };
        match self.ask(wish).await? {
            RegistryAnswer::Created(_) => {
                self.record_time().await;
                Ok(Created::New(self.queue(id).await?))
            }
            RegistryAnswer::Exists(_) => Ok(Created::There(self.find(name.as_str()).await?)),
            RegistryAnswer::Differs(_) => {
                let there = self.find(name.as_str()).await?.options;
                let field = options.differs_in(&there).unwrap_or("options");
                let message = format!("there is a queue {name}, and its options are others: `{field}`");
                Err(QueueError::new(QueueErrorKind::Conflict, message)
                    .with_hint("change that one, delete it first, or choose another name"))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Changes what a queue is like; if `expected` is given, only if nobody changed it since it was so. When it was changed.
    ///
    /// # Errors
    /// There is no such queue; it was changed since; an option is not right, or cannot be changed.
    pub async fn change(
        &self,
        queue: QueueId,
        expected: Option<Version>,
        change: impl Into<QueueSettings>,
    ) -> Result<Version> {
        let change: QueueSettings = change.into();
        let change = QueueSettings {
            shards: change.shards.filter(|_| self.0.queues.has_ring()),
            ..change
        };
        let wish = RegistryWish::Change {
            queue,
            expected,
            change,
        };
        match self.ask(wish).await? {
            RegistryAnswer::Changed(version) => {
                // Whoever uses it goes by that.
                self.queue(queue).await.map_err(QueueError::in_part)?;
                self.record_time().await;
                Ok(version)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Records the time in a store that has no other clock, if some of its queues expire messages.
    pub(crate) async fn record_time(&self) {
        if self.0.queues.store.limits().remote {
            return;
        }
        let shortest = self.with_registry(|registry| {
            let retentions = registry
                .queues()
                .filter_map(|(.., queue)| queue.options.retention_seconds);
            retentions.min()
        });
        if let Ok(Some(shortest)) = shortest.await {
            self.0.queues.record_time(shortest).await;
        }
    }

    /// What holds of these options in this store: where one process alone makes changes nobody is in its way, and a queue has one
    /// shard, whatever is asked for.
    fn held(&self, options: QueueOptions) -> Result<QueueOptions> {
        if self.0.queues.has_ring() {
            return Ok(options);
        }
        options.check_shards()?;
        Ok(QueueOptions { shards: 1, ..options })
    }

    /// The queue is gone with all of its messages, and its name is free.
    ///
    /// # Errors
    /// There is no such queue, or another one sends its dead letters there.
    pub async fn delete(&self, queue: QueueId) -> Result<()> {
        match self.ask(RegistryWish::Delete(queue)).await? {
            RegistryAnswer::Done => {
                let left: BTreeSet<_> = self
                    .with_registry(|registry| {
                        registry.places().filter_map(|(_, row)| row.held.id()).collect()
                    })
                    .await?;
                // With its work units.
                self.kept().retain(|id, _| *id != queue && left.contains(id));
                self.clear_deleted().await
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Moves dead letters back to a queue, or messages anywhere else, at most so many, or all that there are; how many were. To a
    /// queue that is ordered only those go that have a group.
    ///
    /// # Errors
    /// Both are the same queue; and as of [`Shards::redrive`].
    pub async fn redrive(&self, from: &Queue, to: &Queue, most: Option<usize>) -> Result<usize> {
        if from.id == to.id {
            let message = format!(
                "to: messages of {} are there already: nothing was moved",
                from.name
            );
            return Err(QueueError::new(QueueErrorKind::InvalidArgument, message)
                .with_hint("name the queue that they are to be moved to")
                .with_field("to"));
        }
        if !from.shards.is_beside(&to.shards) {
            let message = format!("to: {} is a queue of another store: nothing was moved", to.name);
            return Err(QueueError::new(QueueErrorKind::InvalidArgument, message)
                .with_hint("receive the messages here, and send them there")
                .with_field("to"));
        }
        from.shards.redrive(&to.shards, most).await
    }

    /// All queues, by name.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn list(&self) -> Result<Vec<Queue>> {
        let mut all: Vec<_> = self
            .with_registry(|registry| {
                let queues = registry.queues();
                let known = queues.map(|(place, row, queue)| self.known_queue(registry, place, row, queue));
                known.collect()
            })
            .await?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// The queue of this name, or the work unit of one, as `QUEUE/UNIT`.
    ///
    /// # Errors
    /// There is none.
    pub async fn find(&self, name: &str) -> Result<Queue> {
        let found = self.with_registry(|registry| {
            let (queue, unit) = name
                .split_once('/')
                .map_or((name, None), |(queue, unit)| (queue, Some(unit)));
            let (place, row, queue) = registry.named(queue)?;
            match unit {
                Some(unit) => {
                    let (place, row, unit) = registry.unit(queue.id, unit)?;
                    self.known_unit(registry, place, row, unit)
                }
                None => Some(self.known_queue(registry, place, row, queue)),
            }
        });
        found.await?.ok_or_else(|| {
            let what = if name.contains('/') { "work unit" } else { "queue" };
            QueueError::new(QueueErrorKind::NotFound, format!("there is no {what} {name}"))
                .with_hint("create it first, or look at the names of those there are")
        })
    }

    /// The queue or work unit of this id, as it is now.
    ///
    /// # Errors
    /// It was deleted.
    pub async fn queue(&self, id: QueueId) -> Result<Queue> {
        let found = self.with_registry(|registry| {
            if let Some((place, row, unit)) = registry.units().find(|(.., unit)| unit.id == id) {
                return self.known_unit(registry, place, row, unit);
            }
            let (place, row, queue) = registry.queue(id)?;
            Some(self.known_queue(registry, place, row, queue))
        });
        found.await?.ok_or_else(QueueError::deleted)
    }

    /// Looks at the registry as it is known; read, if it is not, or if others may have changed it.
    pub(crate) async fn with_registry<T>(&self, look: impl FnOnce(&Registry) -> T) -> Result<T> {
        let rounds = &self.0.registry;
        if self.0.queues.store.limits().remote || rounds.with_copy(|registry| registry.is_none()) {
            return Ok(look(&rounds.read().await?));
        }
        rounds.with_copy(|registry| Ok(look(registry.unwrap_or(&Registry::absent()))))
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<QueueId, Shards>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_queue(
        &self,
        registry: &Registry,
        place: Place,
        row: &PlaceRow,
        queue: &recto_protocol::queues::Queue,
    ) -> Queue {
        let known = self.known(registry, place, row, queue);
        self.keep(queue.id, &known.shards);
        known
    }

    /// What has this place, and is like this queue.
    pub(crate) fn known(
        &self,
        registry: &Registry,
        place: Place,
        row: &PlaceRow,
        queue: &recto_protocol::queues::Queue,
    ) -> Queue {
        let shards = self.0.queues.shards(place, row.tenure, queue.options.shards);
        let dead_letters = queue.options.dead_letters.as_ref();
        let dead_letters = dead_letters.and_then(|dead_letters| {
            let (place, row, to) = registry.named(dead_letters.queue.as_str())?;
            Some(Destination {
                place,
                tenure: row.tenure,
                shards: to.options.shards,
            })
        });
        let options = ShardOptions::of(&queue.options, registry.version(), dead_letters);
        shards.set_options(options);
        Queue {
            id: queue.id,
            name: queue.name.clone(),
            unit: None,
            options: queue.options.clone(),
            changed: row.changed,
            shards,
        }
    }

    /// What is known of it outlives who uses it.
    pub(crate) fn keep(&self, queue: QueueId, shards: &Shards) {
        self.kept().entry(queue).or_insert_with(|| shards.clone());
    }

    pub(crate) async fn ask(&self, wish: RegistryWish) -> Result<RegistryAnswer> {
        self.0.registry.ask_one(wish, self.0.queues.request_timeout).await
    }

    /// Clears the places of queues that were deleted, so that others can have them. One where that fails stays as it is, and is
    /// tried again.
    pub(crate) async fn clear_deleted(&self) -> Result<()> {
        let deleting = self.with_registry(|registry| {
            let places = registry.places().filter(|(_, row)| row.deleting().is_some());
            places
                .map(|(place, row)| (place, row.clone()))
                .collect::<Vec<_>>()
        });
        for (place, row) in deleting.await? {
            let _ = self.clear(place, &row).await;
        }
        Ok(())
    }

    async fn clear(&self, place: Place, row: &PlaceRow) -> Result<()> {
        for shard in row.shards() {
            let cleared = self.0.queues.shard(Address { place, shard }, row.tenure);
            cleared.clear(row.tenure).await?;
        }
        self.ask(RegistryWish::Cleared(place, row.tenure)).await?;
        Ok(())
    }
}

impl From<OptionError> for QueueError {
    fn from(error: OptionError) -> Self {
        Self::new(QueueErrorKind::InvalidArgument, error.to_string())
            .with_hint(error.hint())
            .with_field(error.field())
            .with_source(error)
    }
}

pub(crate) fn unexpected(answer: &RegistryAnswer) -> QueueError {
    let (kind, message, hint) = match answer {
        RegistryAnswer::Refused(error) => return error.clone().into(),
        RegistryAnswer::NoQueue => return QueueError::deleted(),
        RegistryAnswer::Outdated(_) => (
            QueueErrorKind::Changed,
            "the queue was changed since".to_owned(),
            "read it again, and change what it is now",
        ),
        RegistryAnswer::NeededBy(other) => (
            QueueErrorKind::Conflict,
            format!("queue {other} sends its dead letters there"),
            "delete that queue first, or let it send them elsewhere",
        ),
        RegistryAnswer::Full => (
            QueueErrorKind::Full,
            "there are as many queues as there may be".to_owned(),
            "delete one first",
        ),
        other => (
            QueueErrorKind::Store,
            format!("the registry of queues answered what nobody asked: {other:?}"),
            "this is a mistake of Recto: report it",
        ),
    };
    QueueError::new(kind, message).with_hint(hint)
}

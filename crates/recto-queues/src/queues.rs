//! Queues of a store: operations that create, change, delete and find them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recto_api::queues::{QueueSettings, QueueTableSettings};
use recto_protocol::queues::{
    Address, OptionError, Place, PlaceRow, QueueId, QueueName, QueueOptions, Register as _, Registry,
    RegistryCommand, RegistryResponse, StoreOptions, Unit, Version,
};
use tokio::sync::watch;

use crate::cas_loop::CasLoop;
use crate::context::QueueContext;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::options::{Destination, ShardOptions};
use crate::queue::Queue;
use crate::register_tables::registry::RegistryBackend;
use crate::shard::ShardCache;
use crate::shards::Shards;
use crate::table_recycling::TableRecycler;
use crate::table_recycling::status::RotationStatus;

/// Handle to the queues of a store. Cheap to clone.
#[derive(Clone)]
pub struct Queues(pub(crate) Arc<QueuesInner>);

pub(crate) struct QueuesInner {
    pub(crate) shards: Arc<ShardCache>,
    pub(crate) registry: Arc<CasLoop<RegistryBackend>>,
    /// Maintenance of the ring of body tables; `None`: the store deletes bodies with their segments.
    pub(crate) recycler: Option<Arc<TableRecycler>>,
    /// Shards of all queues that were looked up. Keeping them here keeps their cached data when no caller
    /// uses them.
    handles: Mutex<HashMap<QueueId, Shards>>,
    /// Tells the maintenance that the last handle was dropped.
    _open: watch::Sender<()>,
}

/// Outcome of creating a queue.
#[derive(Clone)]
pub enum Created {
    /// The queue was created.
    New(Queue),
    /// The queue existed already, with the same options.
    Existing(Queue),
}

impl Queues {
    /// Returns whether the store has the tables of queues. The tables are created when the queues
    /// of the store are first opened.
    pub fn has_tables(&self) -> bool {
        self.context().has_tables
    }

    /// Creates the handle, and a receiver that is notified when the last handle is dropped.
    pub(crate) fn new(
        shards: Arc<ShardCache>,
        recycler: Option<Arc<TableRecycler>>,
    ) -> (Self, watch::Receiver<()>) {
        let registry = CasLoop::new(RegistryBackend {
            context: shards.context.clone(),
        });
        let (open, ended) = watch::channel(());
        let queues = Self(Arc::new(QueuesInner {
            shards,
            registry,
            recycler,
            handles: Mutex::default(),
            _open: open,
        }));
        (queues, ended)
    }

    pub(crate) fn context(&self) -> &QueueContext {
        &self.0.shards.context
    }

    /// Changes the options that all queues of the store share, such as the rotation interval of the ring. On
    /// a store without a ring, only the maximum number of work units has an effect.
    ///
    /// # Errors
    /// A number is out of range. The error names the field.
    pub async fn configure(&self, change: impl Into<QueueTableSettings>) -> Result<()> {
        match self.call(RegistryCommand::Configure(change.into())).await? {
            RegistryResponse::Done => Ok(()),
            other => Err(rejection(&other)),
        }
    }

    /// Returns the state of the body tables. Reads the heads (shard manifests) of all shards, and
    /// at most 1,024 logs of live segments.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn rotation(&self) -> Result<RotationStatus> {
        self.rotation_with(true).await
    }

    /// Returns the state of the body tables without numbers of segments, messages and bytes, which
    /// would need the heads (shard manifests) of all shards.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn rotation_at_a_glance(&self) -> Result<RotationStatus> {
        self.rotation_with(false).await
    }

    async fn rotation_with(&self, is_counted: bool) -> Result<RotationStatus> {
        match &self.0.recycler {
            Some(recycler) => recycler.status(&self.0.registry, is_counted).await,
            None => Ok(RotationStatus {
                is_needed: self.context().has_ring(),
                options: self.options().await?,
                tables: Vec::new(),
                obstacle: None,
            }),
        }
    }

    /// Returns the options that all queues of the store share, such as the rotation interval of the ring.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn options(&self) -> Result<StoreOptions> {
        self.with_registry(Registry::options).await
    }

    /// Waits until all notifications of this process are written, for use before the process ends. Otherwise,
    /// receivers of other processes find the last messages only when they poll again.
    pub async fn flush_notifications(&self) {
        self.0.shards.notifier.flush().await;
    }

    /// Creates a queue. Does nothing if a queue with the name and the options exists.
    ///
    /// # Errors
    /// - A queue with this name has other options.
    /// - An option is invalid. The error names the option.
    /// - The store has the maximum number of queues.
    pub async fn create(&self, name: &str, options: QueueOptions) -> Result<Created> {
        let name = QueueName::new("name", name)?;
        let options = self.supported_options(options)?;
        let id = QueueId(self.context().random());
        let command = RegistryCommand::Create {
            id,
            name: name.clone(),
            options: options.clone(),
        };
        match self.call(command).await? {
            RegistryResponse::Created(_) => {
                self.record_time().await;
                Ok(Created::New(self.queue(id).await?))
            }
            RegistryResponse::Exists(_) => Ok(Created::Existing(self.find(name.as_str()).await?)),
            RegistryResponse::Differs(_) => {
                let there = self.find(name.as_str()).await?.options;
                let field = options.differs_in(&there).unwrap_or("options");
                let message = format!("queue {name} exists with other options: `{field}`");
                Err(QueueError::new(QueueErrorKind::Conflict, message)
                    .with_hint("change the existing queue, delete it first, or choose another name"))
            }
            other => Err(rejection(&other)),
        }
    }

    /// Changes the options of a queue and returns the version of the change. If `expected` is given and the
    /// queue has another version, changes nothing and fails.
    ///
    /// # Errors
    /// The queue does not exist, or was changed since. An option is invalid, or cannot be changed.
    pub async fn change(
        &self,
        queue: QueueId,
        expected: Option<Version>,
        change: impl Into<QueueSettings>,
    ) -> Result<Version> {
        let change: QueueSettings = change.into();
        let change = QueueSettings {
            shards: change.shards.filter(|_| self.context().has_ring()),
            ..change
        };
        let command = RegistryCommand::Change {
            queue,
            expected,
            change,
        };
        match self.call(command).await? {
            RegistryResponse::Changed(version) => {
                // Read the queue again, which applies the new options for all its users in this
                // process.
                self.queue(queue).await.map_err(QueueError::in_part)?;
                self.record_time().await;
                Ok(version)
            }
            other => Err(rejection(&other)),
        }
    }

    /// Records the current time in a store that has no clock of its own, if a queue has a retention.
    pub(crate) async fn record_time(&self) {
        if self.context().is_shared() {
            return;
        }
        let shortest = self.with_registry(|registry| {
            let retentions = registry
                .queues()
                .filter_map(|(.., queue)| queue.options.retention_seconds);
            retentions.min()
        });
        if let Ok(Some(shortest)) = shortest.await {
            self.context().record_time(shortest).await;
        }
    }

    /// Returns the options with which a queue is created in this store. If only this process makes changes,
    /// the queue has one shard, because further shards only reduce conflicts between processes.
    fn supported_options(&self, options: QueueOptions) -> Result<QueueOptions> {
        if self.context().has_ring() {
            return Ok(options);
        }
        options.check_shards()?;
        Ok(QueueOptions { shards: 1, ..options })
    }

    /// Deletes the queue and all its messages, and frees its name.
    ///
    /// # Errors
    /// The queue does not exist, or another queue uses it as its dead-letter queue.
    pub async fn delete(&self, queue: QueueId) -> Result<()> {
        match self.call(RegistryCommand::Delete(queue)).await? {
            RegistryResponse::Done => {
                let left: BTreeSet<_> = self
                    .with_registry(|registry| {
                        registry.places().filter_map(|(_, row)| row.held.id()).collect()
                    })
                    .await?;
                // Drop the cached data of the queue and of its work units, which were deleted with it.
                self.handles().retain(|id, _| *id != queue && left.contains(id));
                self.clear_deleted().await
            }
            other => Err(rejection(&other)),
        }
    }

    /// Moves messages from one queue to another, for example dead letters back to their queue.
    /// Returns the number of moved messages, at most `most`. If `most` is `None`, the number has no
    /// limit. An ordered queue gets only messages that have a group.
    ///
    /// # Errors
    /// Both queues are the same, or they are in different stores. Otherwise, the errors of [`Shards::redrive`].
    pub async fn redrive(&self, from: &Queue, to: &Queue, most: Option<usize>) -> Result<usize> {
        if from.id == to.id {
            let message = format!(
                "to: messages of {} are already in this queue: nothing was moved",
                from.name
            );
            return Err(QueueError::new(QueueErrorKind::InvalidArgument, message)
                .with_hint("name the queue that receives the messages")
                .with_field("to"));
        }
        if !from.shards.shares_store_with(&to.shards) {
            let message = format!("to: queue {} is in another store: nothing was moved", to.name);
            return Err(QueueError::new(QueueErrorKind::InvalidArgument, message)
                .with_hint("receive the messages from this queue, and send them to the other one")
                .with_field("to"));
        }
        from.shards.redrive(&to.shards, most).await
    }

    /// Returns all queues, sorted by name.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn list(&self) -> Result<Vec<Queue>> {
        let mut all: Vec<_> = self
            .with_registry(|registry| {
                let queues = registry.queues();
                let known = queues.map(|(place, row, queue)| self.queue_handle(registry, place, row, queue));
                known.collect()
            })
            .await?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Returns the queue with this name, or the work unit (temporary queue) with the name
    /// `QUEUE/UNIT`.
    ///
    /// # Errors
    /// The queue or the work unit does not exist.
    pub async fn find(&self, name: &str) -> Result<Queue> {
        let found = self.with_registry(|registry| {
            let (queue, unit) = name
                .split_once('/')
                .map_or((name, None), |(queue, unit)| (queue, Some(unit)));
            let (place, row, queue) = registry.named(queue)?;
            match unit {
                Some(unit) => {
                    let (place, row, unit) = registry.unit(queue.id, unit)?;
                    self.unit_handle(registry, place, row, unit)
                }
                None => Some(self.queue_handle(registry, place, row, queue)),
            }
        });
        found.await?.ok_or_else(|| {
            let what = if name.contains('/') { "work unit" } else { "queue" };
            QueueError::new(QueueErrorKind::NotFound, format!("there is no {what} {name}"))
                .with_hint("create it first, or list the existing names")
        })
    }

    /// Returns the queue or work unit (temporary queue) with this identifier, and its current
    /// options.
    ///
    /// # Errors
    /// The queue or the work unit was deleted.
    pub async fn queue(&self, id: QueueId) -> Result<Queue> {
        let found = self.with_registry(|registry| {
            if let Some((place, row, unit)) = registry.units().find(|(.., unit)| unit.id == id) {
                return self.unit_handle(registry, place, row, unit);
            }
            let (place, row, queue) = registry.queue(id)?;
            Some(self.queue_handle(registry, place, row, queue))
        });
        found.await?.ok_or_else(QueueError::deleted)
    }

    /// Calls `look` with the registry of queues. Reads the registry first if it is not cached, or if other
    /// processes may have changed it.
    pub(crate) async fn with_registry<T>(&self, look: impl FnOnce(&Registry) -> T) -> Result<T> {
        let rounds = &self.0.registry;
        if self.context().is_shared() || rounds.with_cached(|registry| registry.is_none()) {
            return Ok(look(&rounds.read().await?));
        }
        rounds.with_cached(|registry| Ok(look(registry.unwrap_or(&Registry::absent()))))
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<QueueId, Shards>> {
        self.0.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue_handle(
        &self,
        registry: &Registry,
        place: Place,
        row: &PlaceRow,
        queue: &recto_protocol::queues::Queue,
    ) -> Queue {
        let known = self.build_handle(registry, place, row, queue);
        self.keep_handle(queue.id, &known.shards);
        known
    }

    /// Returns the queue or the work unit (temporary queue) that uses this registry slot. A work
    /// unit has the options of its queue, `queue`.
    pub(crate) fn build_handle(
        &self,
        registry: &Registry,
        place: Place,
        row: &PlaceRow,
        queue: &recto_protocol::queues::Queue,
    ) -> Queue {
        let shards = Shards::new(&self.0.shards, place, row.tenure, queue.options.shards);
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

    /// Returns the handle to a work unit (temporary queue). `None`: its queue was deleted.
    pub(crate) fn unit_handle(
        &self,
        registry: &Registry,
        place: Place,
        row: &PlaceRow,
        unit: &Unit,
    ) -> Option<Queue> {
        let (.., queue) = registry.queue(unit.queue)?;
        let known = self.build_handle(registry, place, row, queue);
        // Ignore a failed `set`: the id is already set, to the same value.
        let _ = known.shards.queue().unit.set(unit.id);
        self.keep_handle(unit.id, &known.shards);
        Some(Queue {
            id: unit.id,
            unit: Some(unit.name.clone()),
            ..known
        })
    }

    /// Keeps the cached data of a queue when no caller uses the queue.
    pub(crate) fn keep_handle(&self, queue: QueueId, shards: &Shards) {
        self.handles().entry(queue).or_insert_with(|| shards.clone());
    }

    pub(crate) async fn call(&self, command: RegistryCommand) -> Result<RegistryResponse> {
        self.0.registry.call(command).await
    }

    /// Clears the registry slots of deleted queues, so that new queues can use the slots. If that
    /// fails for a slot, a later call tries again.
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
            let cleared = self.0.shards.shard(Address { place, shard }, row.tenure);
            cleared.clear(row.tenure).await?;
        }
        self.call(RegistryCommand::Cleared(place, row.tenure)).await?;
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

pub(crate) fn rejection(response: &RegistryResponse) -> QueueError {
    let (kind, message, hint) = match response {
        RegistryResponse::Refused(error) => return error.clone().into(),
        RegistryResponse::NoQueue => return QueueError::deleted(),
        RegistryResponse::Outdated(_) => (
            QueueErrorKind::Changed,
            "the queue was changed since you read it".to_owned(),
            "read the queue again, and repeat the change",
        ),
        RegistryResponse::NeededBy(other) => (
            QueueErrorKind::Conflict,
            format!("queue {other} uses this queue as its dead-letter queue"),
            "delete that queue first, or choose another dead-letter queue for it",
        ),
        RegistryResponse::Full => (
            QueueErrorKind::Full,
            "the store has the maximum number of queues".to_owned(),
            "delete a queue first",
        ),
        other => (
            QueueErrorKind::Store,
            format!("the registry of queues gave an unexpected answer: {other:?}"),
            "report this defect of Recto",
        ),
    };
    QueueError::new(kind, message).with_hint(hint)
}

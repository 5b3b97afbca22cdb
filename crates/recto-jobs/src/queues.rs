//! All queues of a store: made, changed, deleted, found.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Environment;
use recto_queue::options::Deduplication;
use recto_queue::{
    Address, Held, Place, PlaceRow, QueueId, QueueName, QueueOptions, Registry, RegistryAnswer, RegistryWish,
    Shard as ShardNumber, Version,
};
use recto_store::Store;

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::place::QueueStore;
use crate::registry::RegistryGround;
use crate::rounds::Rounds;
use crate::shard::{DeadLetters, Shard};

/// Where the one shard of a queue is, in a store that needs no more.
const ONLY: ShardNumber = ShardNumber(0);

/// The queues of a store. Cheap to clone.
#[derive(Clone)]
pub struct Queues {
    queues: QueueStore,
    registry: Arc<Rounds<RegistryGround>>,
}

/// A queue, as it was when it was looked for. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    /// It and no other, whatever it is called.
    pub id: QueueId,
    /// What it is called.
    pub name: QueueName,
    /// What it is like.
    pub options: QueueOptions,
    /// When it was changed last: another one for each change.
    pub changed: Version,
    /// Where its messages are.
    pub shard: Shard,
}

/// What became of making a queue.
#[derive(Clone)]
pub enum Created {
    /// It was made.
    New(Queue),
    /// It was there, and is like that.
    There(Queue),
}

impl Queues {
    /// The queues of a store, whose tables are made if it has none. A request may take so long.
    ///
    /// # Errors
    /// A table cannot be made, or is another program's. The store is shared with other processes: that needs tables of
    /// bodies that are emptied in turn, which this release does not have.
    pub async fn open(
        store: Arc<dyn Store>,
        environment: Environment,
        request_timeout: Duration,
    ) -> Result<Self> {
        if store.limits().remote {
            let message = format!("queues on {} are not part of this release", store.kind().name());
            return Err(QueueError::new(QueueErrorKind::Store, message).with_hint("use an embedded store"));
        }
        let queues = QueueStore::open(store, environment, request_timeout).await?;
        let registry = Rounds::new(RegistryGround {
            queues: queues.clone(),
        });
        let open = Self { queues, registry };
        // What a process that ended had begun to delete.
        open.clear_deleted().await?;
        Ok(open)
    }

    /// Makes a queue; nothing if there is one of this name that is like that.
    ///
    /// # Errors
    /// There is another of this name; an option is not right, as the message says by its field; there are as many queues as
    /// there may be.
    pub async fn create(&self, name: &str, options: QueueOptions) -> Result<Created> {
        let name = QueueName::new("name", name).map_err(refused)?;
        let options = QueueOptions { shards: 1, ..options };
        let id = QueueId(self.queues.random());
        let wish = RegistryWish::Create {
            id,
            name: name.clone(),
            options,
        };
        match self.ask(wish).await? {
            RegistryAnswer::Created(_) => Ok(Created::New(self.queue(id).await?)),
            RegistryAnswer::Exists(_) => Ok(Created::There(self.find(name.as_str()).await?)),
            RegistryAnswer::Differs(_) => Err(QueueError::new(
                QueueErrorKind::InvalidArgument,
                format!("there is a queue {name}, and its options are others"),
            )
            .with_hint("change that one, delete it first, or choose another name")),
            other => Err(unexpected(&other)),
        }
    }

    /// The queue is like that from now on; if `expected` is given, only if nobody changed it since it was so. When it was
    /// changed.
    ///
    /// # Errors
    /// There is no such queue; it was changed since; an option is not right, or cannot be changed.
    pub async fn change(
        &self,
        queue: QueueId,
        expected: Option<Version>,
        options: QueueOptions,
    ) -> Result<Version> {
        let options = QueueOptions { shards: 1, ..options };
        let wish = RegistryWish::Change {
            queue,
            expected,
            options,
        };
        match self.ask(wish).await? {
            RegistryAnswer::Changed(version) => {
                // Whoever uses it goes by that.
                self.list().await?;
                Ok(version)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The queue is gone with all of its messages, and its name is free.
    ///
    /// # Errors
    /// There is no such queue, or another one sends its dead letters there.
    pub async fn delete(&self, queue: QueueId) -> Result<()> {
        match self.ask(RegistryWish::Delete(queue)).await? {
            RegistryAnswer::Done => self.clear_deleted().await,
            other => Err(unexpected(&other)),
        }
    }

    /// Moves dead letters back to a queue, or messages anywhere else, at most so many; how many were.
    ///
    /// # Errors
    /// As of [`Shard::redrive`].
    pub async fn redrive(&self, from: &Queue, to: &Queue, most: usize) -> Result<usize> {
        let target = &to.shard.0;
        from.shard.redrive((target.address, target.tenure), most).await
    }

    /// All queues, by name.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn list(&self) -> Result<Vec<Queue>> {
        let registry = self.registry.read().await?;
        let queues = registry.queues();
        let mut all: Vec<_> = queues
            .map(|(place, row, queue)| self.known(&registry, place, row, queue))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// The queue of this name.
    ///
    /// # Errors
    /// There is none.
    pub async fn find(&self, name: &str) -> Result<Queue> {
        let registry = self.registry.read().await?;
        let Some((place, row, queue)) = registry.named(name) else {
            let error = QueueError::new(QueueErrorKind::NotFound, format!("there is no queue {name}"));
            return Err(error.with_hint("create it first, or look at the names of those there are"));
        };
        Ok(self.known(&registry, place, row, queue))
    }

    /// The queue of this id.
    async fn queue(&self, id: QueueId) -> Result<Queue> {
        let registry = self.registry.read().await?;
        let (place, row, queue) = registry.queue(id).ok_or_else(QueueError::deleted)?;
        Ok(self.known(&registry, place, row, queue))
    }

    fn known(&self, registry: &Registry, place: Place, row: &PlaceRow, queue: &recto_queue::Queue) -> Queue {
        let address = |place| Address { place, shard: ONLY };
        let shard = self.queues.shard(address(place), row.tenure);
        shard.set_ordered(queue.options.is_ordered);
        shard.set_deduplication_by_group(queue.options.deduplication == Deduplication::Group);
        let dead_letters = queue.options.dead_letters.as_ref();
        shard.set_dead_letters(dead_letters.and_then(|dead_letters| {
            let (place, row, _) = registry.named(dead_letters.queue.as_str())?;
            Some(DeadLetters {
                attempts: dead_letters.attempts,
                to: (address(place), row.tenure),
            })
        }));
        Queue {
            id: queue.id,
            name: queue.name.clone(),
            options: queue.options.clone(),
            changed: row.changed,
            shard,
        }
    }

    async fn ask(&self, wish: RegistryWish) -> Result<RegistryAnswer> {
        self.registry.ask_one(wish, self.queues.request_timeout).await
    }

    /// Clears the places of queues that were deleted, so that others can have them. One where that fails stays as it is, and is
    /// tried again.
    async fn clear_deleted(&self) -> Result<()> {
        let registry = self.registry.read().await?;
        for (place, row) in registry.places() {
            if let Held::Deleting { .. } = row.held {
                let _ = self.clear(place, row).await;
            }
        }
        Ok(())
    }

    async fn clear(&self, place: Place, row: &PlaceRow) -> Result<()> {
        for shard in row.shards() {
            let cleared = self.queues.shard(Address { place, shard }, row.tenure);
            cleared.0.clear(row.tenure).await?;
        }
        self.ask(RegistryWish::Cleared(place, row.tenure)).await?;
        Ok(())
    }
}

fn refused(error: recto_queue::OptionError) -> QueueError {
    QueueError::new(QueueErrorKind::InvalidArgument, error.to_string())
        .with_hint(error.hint())
        .with_source(error)
}

fn unexpected(answer: &RegistryAnswer) -> QueueError {
    let (kind, message, hint) = match answer {
        RegistryAnswer::Refused(error) => return refused(error.clone()),
        RegistryAnswer::NoQueue => return QueueError::deleted(),
        RegistryAnswer::Outdated(_) => (
            QueueErrorKind::InvalidArgument,
            "the queue was changed since".to_owned(),
            "read it again, and change what it is now",
        ),
        RegistryAnswer::NeededBy(other) => (
            QueueErrorKind::InvalidArgument,
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

//! What is to be done with the ring, and when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recto_protocol::queues::{
    Address, BodyTable, Ending, Life, Live, Micros, Phase, Registry, Ring, RingAnswer, RingWish, Segment,
    StoreOptions, UnitAction, UnitEvent,
};
use tokio::sync::watch;

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::place::QueueStore;
use crate::registry::RegistryGround;
use crate::ring::ground::RingGround;
use crate::ring::sizes::Sizes;
use crate::ring::survey::Survey;
use crate::rounds::Rounds;

/// A slice is looked at so often, but no more and no less often than the next two say.
const TURNS_OF_A_SLICE: u32 = 10;
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(30);
/// Since when whoever is emptying a table is taken for gone, and nobody knows what became of it.
const GIVEN_UP_MICROS: Micros = 300_000_000;
/// Segments of a table that are copied on in one turn.
const MAX_REHOMED: usize = 16;
/// How often a first table is made.
const MAX_BEGINNINGS: u32 = 4;

/// Keeps the ring of a store.
pub(crate) struct Keeper {
    pub(crate) queues: QueueStore,
    ring: Arc<Rounds<RingGround>>,
    /// What was asked for people.
    pub(crate) sizes: Sizes,
    /// Why something of the last turn was not done.
    obstacle: Mutex<Option<QueueError>>,
}

impl Keeper {
    pub(crate) fn new(queues: &QueueStore) -> Self {
        Self {
            queues: queues.clone(),
            ring: Rounds::new(RingGround::new(queues)),
            sizes: Sizes::default(),
            obstacle: Mutex::default(),
        }
    }

    pub(crate) async fn ask(&self, wish: RingWish) -> Result<RingAnswer> {
        self.ring.ask_one(wish, self.queues.request_timeout).await
    }

    /// Has a table where segments are opened, and knows it.
    pub(crate) async fn begin(&self) -> Result<()> {
        for _ in 0..MAX_BEGINNINGS {
            let ring = self.queues.read_ring().await?;
            if ring.open().is_some() {
                return Ok(());
            }
            self.grow(&ring).await?;
        }
        let message = "no table of bodies can be opened: nothing was done";
        Err(QueueError::new(QueueErrorKind::Store, message).with_hint("try again"))
    }

    /// Why something was not done, if it was not.
    pub(crate) fn obstacle(&self) -> Option<QueueError> {
        let obstacle = self.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
        obstacle.clone()
    }

    /// Something is not done for that.
    pub(crate) fn stands_still(&self, error: &QueueError) {
        let mut obstacle = self.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
        *obstacle = Some(error.clone());
    }

    fn notes(&self, done: Result<()>) {
        if let Err(error) = done {
            self.stands_still(&error);
        }
    }

    /// Does once what is to be done. What cannot be done keeps nothing else from it, and is tried again next time.
    ///
    /// # Errors
    /// Ring or registry cannot be read.
    async fn turn(&self, registry: &Rounds<RegistryGround>) -> Result<StoreOptions> {
        *self.obstacle.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let ring = self.queues.read_ring().await?;
        // After the ring: a queue that came later knows that ring.
        let seen = registry.read().await?;
        let options = seen.options();
        self.ring.ground.set_options(&options);
        self.retire(&ring).await;
        self.notes(self.end_units(&ring, &seen).await);
        // One a turn is enough for slices; a unit makes its own.
        self.notes(self.grow_to(&ring, size(&seen)).await.map(drop));
        self.notes(self.roll(&ring, &options).await);
        for (table, phase) in ring.tables() {
            if let Phase::Closing { life, .. } = phase {
                self.notes(self.fence(&ring, &seen, *table, *life).await);
            }
        }
        self.notes(self.leave(&ring, &seen, &options).await);
        Ok(options)
    }

    /// Nobody knows what became of emptying some tables; those are dropped.
    async fn retire(&self, ring: &Ring) {
        let now = self.queues.environment.now_micros();
        for (table, phase) in ring.tables() {
            let done = match phase {
                Phase::Emptying { owner, since, .. } if now - since >= GIVEN_UP_MICROS => {
                    self.ask(RingWish::Retire(*table, *owner)).await.map(drop)
                }
                Phase::Retired => self.drop_retired(*table).await,
                _ => Ok(()),
            };
            self.notes(done);
        }
    }

    /// Makes one table more if there are fewer than that, those that are retired not counted; whether there were.
    pub(crate) async fn grow_to(&self, ring: &Ring, size: usize) -> Result<bool> {
        let is_short = usable(ring) < size;
        if is_short {
            self.grow(ring).await?;
        }
        Ok(is_short)
    }

    /// Ends the slice when it is over, if another table is free.
    async fn roll(&self, ring: &Ring, options: &StoreOptions) -> Result<()> {
        let Some((table, life)) = ended(ring, options, self.queues.environment.now_micros()) else {
            return Ok(());
        };
        match self.ask(RingWish::Roll(table, life)).await? {
            RingAnswer::Short => Err(short()),
            _ => Ok(()),
        }
    }

    /// Tables that are closed are left, and emptied.
    async fn leave(&self, ring: &Ring, registry: &Registry, options: &StoreOptions) -> Result<()> {
        let now = self.queues.environment.now_micros();
        let is_older =
            |since: Micros, seconds: u32| now.saturating_sub(since) >= Micros::from(seconds) * 1_000_000;
        let is_short = !ring.tables().values().any(is_free);
        let is_left = |since| is_short || is_older(since, options.rotation_seconds);
        let closed = closed(ring);
        let mut due = closed.iter();
        if !due.any(|(_, since)| is_left(*since) || is_older(*since, options.grace_seconds)) {
            return Ok(());
        }
        let survey = Survey::read(&self.queues, registry).await?;
        for (table, since) in closed {
            let references = survey.references(table);
            if references.is_empty() {
                if is_older(since, options.grace_seconds) {
                    self.notes(self.empty(ring, &survey, table).await);
                }
            } else if is_left(since) {
                self.rehome_some(references).await;
            }
        }
        Ok(())
    }

    /// Copies some of these on; which ones is drawn, since others may be at it, or some cannot be.
    async fn rehome_some(&self, references: &[(Address, Segment, Live)]) {
        let sealed = references.iter().filter(|(.., live)| live.count.is_some());
        let sealed: Vec<_> = sealed.collect();
        let start = self.queues.drawn_below(sealed.len());
        for (address, segment, live) in sealed
            .iter()
            .cycle()
            .skip(start)
            .take(MAX_REHOMED.min(sealed.len()))
        {
            self.notes(self.rehome(*address, *segment, *live).await);
        }
    }

    /// Tables of work units that have ended are closed, by this ring and a registry that was read after it.
    async fn end_units(&self, ring: &Ring, registry: &Registry) -> Result<()> {
        if ring.units().next().is_none() {
            return Ok(());
        }
        let mut ending = Ending::new(self.queues.protocol);
        let mut event = UnitEvent::Begin;
        loop {
            event = match ending.step(event) {
                UnitAction::ReadRing => UnitEvent::Ring(ring.clone()),
                UnitAction::ReadRegistry => UnitEvent::Registry(registry.clone()),
                UnitAction::Ring(wish) => UnitEvent::RingAnswer(self.ask(wish).await?),
                UnitAction::Over => return Ok(()),
            };
        }
    }
}

/// As many tables as there are to be: for slices, and for the units that there are.
pub(crate) fn size(registry: &Registry) -> usize {
    usize::from(registry.options().tables) + registry.units().count()
}

/// Its tables that are not retired.
fn usable(ring: &Ring) -> usize {
    let tables = ring.tables().values();
    tables.filter(|phase| **phase != Phase::Retired).count()
}

/// The tables that are closed, each since when, the oldest first.
fn closed(ring: &Ring) -> Vec<(BodyTable, Micros)> {
    let closed = ring.tables().iter().filter_map(|(table, phase)| match phase {
        Phase::Closed { since, .. } => Some((*table, *since)),
        _ => None,
    });
    let mut closed: Vec<_> = closed.collect();
    closed.sort_by_key(|(_, since)| *since);
    closed
}

/// The table whose slice is over, and which of its lives it is in.
fn ended(ring: &Ring, options: &StoreOptions, now: Micros) -> Option<(BodyTable, Life)> {
    let slice = Micros::from(options.rotation_seconds) * 1_000_000;
    ring.tables().iter().find_map(|(table, phase)| match phase {
        Phase::Open { since, life } if now.saturating_sub(*since) >= slice => Some((*table, *life)),
        _ => None,
    })
}

fn is_free(phase: &Phase) -> bool {
    *phase == Phase::Free
}

/// Why a slice that is over goes on, as the ring itself says it: no table is free.
pub(crate) fn shortage(ring: &Ring, options: &StoreOptions, now: Micros) -> Option<QueueError> {
    let is_short = ended(ring, options, now).is_some() && !ring.tables().values().any(is_free);
    is_short.then(short)
}

fn short() -> QueueError {
    let message = "no table of bodies is free, so that the open table stays open";
    QueueError::new(QueueErrorKind::Unavailable, message).with_hint(
        "receive what is there, or let the ring have more tables; nothing is lost, and sending goes on",
    )
}

/// Keeps the ring until nobody has the queues any more. What is under way then is left as it is: another goes on with it.
pub(crate) fn begin(
    keeper: Arc<Keeper>,
    registry: Arc<Rounds<RegistryGround>>,
    mut ended: watch::Receiver<()>,
) {
    tokio::spawn(async move {
        let keeps = async {
            let mut interval = MIN_INTERVAL;
            loop {
                tokio::time::sleep(interval).await;
                let turned = keeper.turn(&registry).await;
                interval = turned.as_ref().map_or(MIN_INTERVAL, interval_of);
                keeper.notes(turned.map(drop));
            }
        };
        tokio::select! {
            biased;
            () = keeps => {}
            _ = ended.changed() => {}
        }
    });
}

fn interval_of(options: &StoreOptions) -> Duration {
    let slice = Duration::from_secs(options.rotation_seconds.into());
    (slice / TURNS_OF_A_SLICE).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

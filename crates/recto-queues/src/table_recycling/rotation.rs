//! Maintenance of the ring of body tables: its steps, and when each is executed.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use recto_protocol::queues::{
    Address, BodyTable, Ending, Life, Live, Micros, Phase, Registry, Ring, RingCommand, RingResponse,
    Segment, StoreOptions, UnitAction, UnitEvent,
};
use tokio::sync::watch;

use crate::cas_loop::CasLoop;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::register_tables::registry::RegistryBackend;
use crate::table_recycling::TableRecycler;
use crate::table_recycling::references::TableReferences;

/// Number of maintenance runs of the ring in a rotation interval. `MIN_INTERVAL` and `MAX_INTERVAL`
/// limit the time between two runs.
const RUNS_PER_ROTATION: u32 = 10;
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(30);
/// Time in microseconds after which the process that empties a table counts as gone. The outcome of the
/// emptying is then unknown.
const EMPTYING_TIMEOUT_MICROS: Micros = 300_000_000;
/// Maximum number of segments of each closed table whose bodies one maintenance run copies to the open table.
const MAX_REHOMED: usize = 16;
impl TableRecycler {
    /// Runs the maintenance once. If a step fails, the run continues with the other steps, and the
    /// next run tries again.
    ///
    /// # Errors
    /// The ring of body tables or the registry cannot be read.
    async fn run_once(&self, registry: &CasLoop<RegistryBackend>) -> Result<StoreOptions> {
        *self.obstacle.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let ring = self.context.read_ring().await?;
        // Read the registry after the ring: a queue that this registry does not list was created later, and
        // its process read this ring or a newer one.
        let seen = registry.read().await?;
        let options = seen.options();
        self.ring.backend.set_options(&options);
        self.retire_tables(&ring).await;
        self.record_failure(self.end_units(&ring, &seen).await);
        // Add at most one table in each run, which is enough for the rotation. A new work unit adds
        // a table for itself.
        self.record_failure(self.grow_to(&ring, table_count(&seen)).await.map(drop));
        self.record_failure(self.close_open_table(&ring, &options).await);
        for (table, phase) in ring.tables() {
            if let Phase::Closing { life, .. } = phase {
                self.record_failure(self.fence(&ring, &seen, *table, *life).await);
            }
        }
        self.record_failure(self.empty_closed_tables(&ring, &seen, &options).await);
        Ok(options)
    }

    /// Retires tables whose emptying has an unknown outcome, and drops retired tables.
    async fn retire_tables(&self, ring: &Ring) {
        let now = self.context.environment.now_micros();
        for (table, phase) in ring.tables() {
            let done = match phase {
                Phase::Emptying { owner, since, .. } if now - since >= EMPTYING_TIMEOUT_MICROS => {
                    self.call(RingCommand::Retire(*table, *owner)).await.map(drop)
                }
                Phase::Retired => self.drop_retired(*table).await,
                _ => Ok(()),
            };
            self.record_failure(done);
        }
    }

    /// Closes the open body table if its rotation interval is over, so that a free table is opened.
    /// Fails if no table is free.
    async fn close_open_table(&self, ring: &Ring, options: &StoreOptions) -> Result<()> {
        let Some((table, life)) = ended(ring, options, self.context.environment.now_micros()) else {
            return Ok(());
        };
        match self.call(RingCommand::Roll(table, life)).await? {
            RingResponse::Short => Err(short()),
            _ => Ok(()),
        }
    }

    /// Empties closed tables that no live segment refers to. Copies the bodies of other closed
    /// tables to the open table, if a table was closed for a rotation interval, or if no table is
    /// free.
    async fn empty_closed_tables(
        &self,
        ring: &Ring,
        registry: &Registry,
        options: &StoreOptions,
    ) -> Result<()> {
        let now = self.context.environment.now_micros();
        let is_older =
            |since: Micros, seconds: u32| now.saturating_sub(since) >= Micros::from(seconds) * 1_000_000;
        let is_short = !ring.tables().values().any(is_free);
        let is_left = |since| is_short || is_older(since, options.rotation_seconds);
        let closed = closed(ring);
        let mut due = closed.iter();
        if !due.any(|(_, since)| is_left(*since) || is_older(*since, options.grace_seconds)) {
            return Ok(());
        }
        let references = TableReferences::read(&self.shards, registry).await?;
        for (table, since) in closed {
            let segments = references.segments_in(table);
            if segments.is_empty() {
                if is_older(since, options.grace_seconds) {
                    self.record_failure(self.empty(ring, &references, table).await);
                }
            } else if is_left(since) {
                self.rehome_some(segments).await;
            }
        }
        Ok(())
    }

    /// Copies the bodies of a few segments of `segments` to the open table. The segments are
    /// chosen at random, so that several processes rarely copy the bodies of one segment, and
    /// failing segments do not block others.
    async fn rehome_some(&self, segments: &[(Address, Segment, Live)]) {
        let sealed = segments.iter().filter(|(.., live)| live.count.is_some());
        let sealed: Vec<_> = sealed.collect();
        let start = self.context.random_below(sealed.len());
        for (address, segment, live) in sealed
            .iter()
            .cycle()
            .skip(start)
            .take(MAX_REHOMED.min(sealed.len()))
        {
            self.record_failure(self.rehome(*address, *segment, *live).await);
        }
    }

    /// Closes the tables of work units (temporary queues) that have ended. The caller must have
    /// read `registry` after `ring`.
    async fn end_units(&self, ring: &Ring, registry: &Registry) -> Result<()> {
        if ring.units().next().is_none() {
            return Ok(());
        }
        let mut ending = Ending::new(self.context.protocol);
        let mut event = UnitEvent::Begin;
        loop {
            event = match ending.step(event) {
                UnitAction::ReadRing => UnitEvent::Ring(ring.clone()),
                UnitAction::ReadRegistry => UnitEvent::Registry(registry.clone()),
                UnitAction::Ring(command) => UnitEvent::RingResponse(self.call(command).await?),
                UnitAction::Over => return Ok(()),
            };
        }
    }
}

/// Returns the number of tables that the ring needs: the tables of the rotation, and one for each
/// work unit (temporary queue).
pub(crate) fn table_count(registry: &Registry) -> usize {
    usize::from(registry.options().tables) + registry.units().count()
}

/// Returns the closed tables with the time at which each was closed, oldest first.
fn closed(ring: &Ring) -> Vec<(BodyTable, Micros)> {
    let closed = ring.tables().iter().filter_map(|(table, phase)| match phase {
        Phase::Closed { since, .. } => Some((*table, *since)),
        _ => None,
    });
    let mut closed: Vec<_> = closed.collect();
    closed.sort_by_key(|(_, since)| *since);
    closed
}

/// Returns the open body table, with its lifetime, if its rotation interval is over.
fn ended(ring: &Ring, options: &StoreOptions, now: Micros) -> Option<(BodyTable, Life)> {
    let rotation_interval = Micros::from(options.rotation_seconds) * 1_000_000;
    ring.tables().iter().find_map(|(table, phase)| match phase {
        Phase::Open { since, life } if now.saturating_sub(*since) >= rotation_interval => {
            Some((*table, *life))
        }
        _ => None,
    })
}

fn is_free(phase: &Phase) -> bool {
    *phase == Phase::Free
}

/// Returns the error of a blocked rotation: the rotation interval is over, but no table is free. Returns
/// `None` if the ring has no such problem.
pub(crate) fn shortage(ring: &Ring, options: &StoreOptions, now: Micros) -> Option<QueueError> {
    let is_short = ended(ring, options, now).is_some() && !ring.tables().values().any(is_free);
    is_short.then(short)
}

fn short() -> QueueError {
    let message = "no table of message bodies is free, so the open table stays open";
    QueueError::new(QueueErrorKind::Unavailable, message).with_hint(
        "receive messages, or allow more tables of message bodies; no message is lost, and you can still \
         send",
    )
}

/// Starts the maintenance of the ring of body tables, which runs until the last handle of the
/// queues is dropped. Another process continues work that is interrupted then.
pub(crate) fn begin(
    recycler: Arc<TableRecycler>,
    registry: Arc<CasLoop<RegistryBackend>>,
    mut ended: watch::Receiver<()>,
) {
    tokio::spawn(async move {
        let keeps = async {
            let mut interval = MIN_INTERVAL;
            loop {
                tokio::time::sleep(interval).await;
                let run = recycler.run_once(&registry).await;
                interval = run.as_ref().map_or(MIN_INTERVAL, interval_of);
                recycler.record_failure(run.map(drop));
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
    let rotation_interval = Duration::from_secs(options.rotation_seconds.into());
    (rotation_interval / RUNS_PER_ROTATION).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

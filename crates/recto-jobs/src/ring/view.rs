//! State of the ring, for users.

use recto_protocol::queues::{BodyTable, Micros, Phase, QueueId, Registry, StoreOptions};

use crate::error::Result;
use crate::queues::Queues;
use crate::ring::survey::Survey;
use crate::ring::{keeper, sizes};

/// Ring of a store, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingView {
    /// True if bodies are in a ring of tables. Otherwise bodies are deleted with their segments.
    pub is_needed: bool,
    /// Options of the store, such as the rotation interval.
    pub options: StoreOptions,
    /// Tables by number; empty without a ring.
    pub tables: Vec<TableView>,
    /// Reason why the rotation is blocked, from the maintenance in this process or from the ring itself.
    pub obstacle: Option<String>,
}

/// Table of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableView {
    /// Number of the table.
    pub number: BodyTable,
    /// Name of the table in the store.
    pub name: String,
    /// Phase of the table.
    pub phase: Phase,
    /// Work unit that has the table, as `QUEUE/UNIT`, until it ends.
    pub unit: Option<String>,
    /// Number of live segments whose bodies are in the table.
    pub segments: usize,
    /// Number of messages that were sent to these segments, whether resolved or not.
    pub messages: u64,
    /// Number of bytes of these messages: bodies and attributes, as they were sent. The files of the store are larger:
    /// they contain resolved messages until the table is emptied, and every replica.
    pub bytes: u64,
    /// True if all these segments were counted. Otherwise the true numbers are at least this large.
    /// A view reads at most 1,024 logs, and remembers the sizes of sealed segments.
    pub is_exact: bool,
}

impl TableView {
    /// Returns the time at which the phase began, by the clock of the process that began it.
    pub fn since(&self) -> Option<Micros> {
        match self.phase {
            Phase::Open { since, .. }
            | Phase::Closing { since, .. }
            | Phase::Closed { since, .. }
            | Phase::Emptying { since, .. }
            | Phase::Unit { since, .. } => Some(since),
            Phase::Free | Phase::Retired => None,
        }
    }
}

impl Queues {
    /// Returns the state of the body tables. Reads the heads of all shards, and at most 1,024 logs of live segments.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn ring(&self) -> Result<RingView> {
        self.ring_with(true).await
    }

    /// Returns the state of the body tables without numbers of segments, messages and bytes, which would need the heads
    /// of all shards.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn ring_at_a_glance(&self) -> Result<RingView> {
        self.ring_with(false).await
    }

    async fn ring_with(&self, is_surveyed: bool) -> Result<RingView> {
        let Some(keeper) = &self.0.keeper else {
            return Ok(RingView {
                is_needed: self.0.queues.has_ring(),
                options: self.options().await?,
                tables: Vec::new(),
                obstacle: None,
            });
        };
        let ring = keeper.queues.read_ring().await?;
        let registry = self.0.registry.read().await?;
        let survey = if is_surveyed {
            Survey::read(&keeper.queues, &registry).await?
        } else {
            Survey::default()
        };
        if is_surveyed {
            keeper.sizes.keep(&survey.all());
        }
        let mut tables = Vec::new();
        for (number, phase) in ring.tables() {
            let references = survey.references(*number);
            let share = sizes::share(survey.tables());
            let size = keeper.sizes.of(&keeper.queues, references, share).await?;
            tables.push(TableView {
                number: *number,
                name: keeper.queues.tables.bodies(*number).name().to_owned(),
                phase: *phase,
                unit: match phase {
                    Phase::Unit { unit, .. } => unit_name(&registry, *unit),
                    _ => None,
                },
                segments: references.len(),
                messages: size.messages,
                bytes: size.bytes,
                is_exact: is_surveyed && size.is_exact,
            });
        }
        let options = registry.options();
        let now = keeper.queues.environment.now_micros();
        let obstacle = keeper
            .obstacle()
            .or_else(|| keeper::shortage(&ring, &options, now));
        Ok(RingView {
            is_needed: true,
            options,
            tables,
            obstacle: obstacle.map(|error| error.to_string()),
        })
    }
}

fn unit_name(registry: &Registry, unit: QueueId) -> Option<String> {
    let (.., unit) = registry.units().find(|(.., one)| one.id == unit)?;
    let (.., queue) = registry.queue(unit.queue)?;
    Some(format!("{}/{}", queue.name, unit.name))
}

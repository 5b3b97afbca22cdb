//! How the ring stands, for people.

use recto_protocol::queues::{BodyTable, Micros, Phase, QueueId, Registry, StoreOptions};

use crate::error::Result;
use crate::queues::Queues;
use crate::ring::survey::Survey;
use crate::ring::{keeper, sizes};

/// The ring of a store, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingView {
    /// Whether bodies lie in a ring of tables; else they go with their segments.
    pub is_needed: bool,
    /// How often slices end, and the like.
    pub options: StoreOptions,
    /// Its tables, by number; none where bodies need no ring.
    pub tables: Vec<TableView>,
    /// Why something stands still: in this process, or as the ring itself says it.
    pub obstacle: Option<String>,
}

/// A table of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableView {
    /// Its number.
    pub number: BodyTable,
    /// What it is called in the store.
    pub name: String,
    /// How it stands.
    pub phase: Phase,
    /// Whose it is, if a work unit has it that has not ended: `QUEUE/UNIT`.
    pub unit: Option<String>,
    /// How many live segments have bodies there.
    pub segments: usize,
    /// How many messages were sent to those segments, done with or not.
    pub messages: u64,
    /// How many bytes they have: bodies and attributes, as they were sent. Not what the store's files take: there lies what was done with, too, until the table is emptied, and each copy counts.
    pub bytes: u64,
    /// Whether all of those segments were looked at: a look asks 1,024 logs at most, and remembers of those that are sealed. Else it is that
    /// much at least.
    pub is_exact: bool,
}

impl TableView {
    /// Since when it stands so, by the clock of who said so.
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
    /// How the tables of bodies stand. Reads the head of every queue, and asks logs of live segments how much they have: 1,024 at most.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn ring(&self) -> Result<RingView> {
        self.ring_with(true).await
    }

    /// The same without what refers to the tables, for which the head of every queue would be read: no segments, no messages, no bytes.
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

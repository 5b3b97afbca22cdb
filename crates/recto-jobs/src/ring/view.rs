//! How the ring stands, for people.

use recto_queue::{BodyTable, Micros, Phase, StoreOptions};

use crate::error::Result;
use crate::queues::Queues;
use crate::ring::survey::Survey;

/// The ring of a store, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingView {
    /// How often slices end, and the like.
    pub options: StoreOptions,
    /// Its tables, by number; none where bodies need no ring.
    pub tables: Vec<TableView>,
    /// What stands still in this process, and why.
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
    /// How many live segments have bodies there.
    pub segments: usize,
    /// How many messages those have, done with or not; of an open one, none.
    pub messages: u64,
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
    /// How the tables of bodies stand. Reads the head of every queue.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn ring(&self) -> Result<RingView> {
        let Some(keeper) = &self.0.keeper else {
            let options = StoreOptions::default();
            return Ok(RingView {
                options,
                tables: Vec::new(),
                obstacle: None,
            });
        };
        let ring = keeper.queues.read_ring().await?;
        let registry = self.0.registry.read().await?;
        let survey = Survey::read(&keeper.queues, &registry).await?;
        let table = |(number, phase): (&BodyTable, &Phase)| {
            let references = survey.references(*number);
            let counts = references.iter().filter_map(|(.., live)| live.count);
            TableView {
                number: *number,
                name: keeper.queues.tables.bodies(*number).name().to_owned(),
                phase: *phase,
                segments: references.len(),
                messages: counts.map(u64::from).sum(),
            }
        };
        Ok(RingView {
            options: registry.options(),
            tables: ring.tables().iter().map(table).collect(),
            obstacle: keeper.obstacle().map(|error| error.to_string()),
        })
    }
}

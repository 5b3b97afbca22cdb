//! State of the ring of body tables, for users.

use recto_protocol::queues::{BodyTable, Micros, Phase, QueueId, Registry, StoreOptions};

use crate::cas_loop::CasLoop;
use crate::error::Result;
use crate::register_tables::registry::RegistryBackend;
use crate::table_recycling::references::TableReferences;
use crate::table_recycling::{TableRecycler, rotation, sizes};

/// State of a store's ring: the tables of message bodies, which are used in rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotationStatus {
    /// True if the store keeps bodies in a ring of tables. Otherwise bodies are deleted with their segments.
    pub is_needed: bool,
    /// Options that all queues of the store share, such as the rotation interval.
    pub options: StoreOptions,
    /// Tables of the ring, sorted by id. Empty if the store needs no ring.
    pub tables: Vec<TableStatus>,
    /// Reason why the rotation is blocked. The maintenance of this process reported it, or the ring shows it.
    pub obstacle: Option<String>,
}

/// One of the tables that store the bodies of messages. The tables form a ring: they take new
/// messages in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStatus {
    /// Id of the table, from which its name is made. No other table ever gets the id.
    pub number: BodyTable,
    /// Name of the table in the store.
    pub name: String,
    /// Phase of the table, for example open or closed.
    pub phase: Phase,
    /// Work unit (temporary queue) that uses the table alone, as `QUEUE/UNIT`, until it ends.
    /// `None`: queues share the table.
    pub unit: Option<String>,
    /// Number of segments that are not released yet and whose bodies are in the table.
    pub segments: usize,
    /// Number of messages that were sent to the live segments of the table, resolved messages included.
    pub messages: u64,
    /// Number of bytes of the messages in the live segments of the table: bodies and attributes, as they were
    /// sent. The files of the store are larger: they contain resolved messages until the table is emptied,
    /// and each replica has a copy.
    pub bytes: u64,
    /// True if all live segments of the table were counted. Otherwise, the numbers are lower
    /// bounds, because a view reads at most 1,024 logs. A view also uses the remembered sizes of
    /// sealed segments.
    pub is_exact: bool,
}

impl TableStatus {
    /// Returns the time at which the current phase of the table began, by the clock of the process that began
    /// it.
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

impl TableRecycler {
    /// Returns the state of the body tables. Reads numbers of segments, messages and bytes only if
    /// `is_counted` is set.
    pub(crate) async fn status(
        &self,
        registry: &CasLoop<RegistryBackend>,
        is_counted: bool,
    ) -> Result<RotationStatus> {
        let ring = self.context.read_ring().await?;
        let registry = registry.read().await?;
        let references = if is_counted {
            TableReferences::read(&self.shards, &registry).await?
        } else {
            TableReferences::default()
        };
        if is_counted {
            self.sizes.keep(&references.all());
        }
        let mut tables = Vec::new();
        for (number, phase) in ring.tables() {
            let segments = references.segments_in(*number);
            let share = sizes::share(references.tables());
            let size = self.sizes.of(&self.context, segments, share).await?;
            tables.push(TableStatus {
                number: *number,
                name: self.context.tables.bodies(*number).name().to_owned(),
                phase: *phase,
                unit: match phase {
                    Phase::Unit { unit, .. } => unit_name(&registry, *unit),
                    _ => None,
                },
                segments: segments.len(),
                messages: size.messages,
                bytes: size.bytes,
                is_exact: is_counted && size.is_exact,
            });
        }
        let options = registry.options();
        let now = self.context.environment.now_micros();
        let obstacle = self
            .obstacle()
            .or_else(|| rotation::shortage(&ring, &options, now));
        Ok(RotationStatus {
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

//! Storage of the registry of queues in its table.

use std::sync::Arc;

use async_trait::async_trait;
use recto_model::{Bound, RowRef, Slice};
use recto_protocol::queues::{Action, Event, Place, Register, Registry, RegistryContext, Round, stored};
use recto_store::{Cas, Operation, RowAddress};

use crate::cas_loop::{RegisterBackend, RegisterWrite};
use crate::context::QueueContext;
use crate::error::{QueueErrorKind, Result};
use crate::register_tables::{condition, damaged, header_of, put_header, read_header};
use crate::tables::{mutation, place_clustering, registry_partition};

/// Number of rows per page in a read of the registry (list of queues).
const READ_ROWS: u32 = 1_000;
/// Maximum number of attempts to read the registry. An attempt fails if the registry changes between the
/// reads of its pages.
const MAX_READS: u32 = 3;

/// Storage of the registry (list of the queues of a keyspace), for its compare-and-set loop.
pub(crate) struct RegistryBackend {
    pub(crate) context: QueueContext,
}

#[async_trait]
impl RegisterBackend for RegistryBackend {
    type Register = Registry;

    fn context(&self) -> &QueueContext {
        &self.context
    }

    fn step(&self, round: &mut Round<Registry>, event: Event<Registry>) -> Vec<Action<Registry>> {
        let context = RegistryContext {
            now: self.context.environment.now_micros(),
            protocol: self.context.protocol,
        };
        round.step(event, &context)
    }

    async fn read(&self, _: Option<Registry>) -> Result<Registry> {
        if !self.context.has_tables {
            return Ok(Registry::absent());
        }
        let mut reads = 1;
        loop {
            match self.read_once().await {
                Err(error) if error.kind() == QueueErrorKind::Corrupt && reads < MAX_READS => reads += 1,
                read => return read,
            }
        }
    }

    fn write_request(&self, before: &Registry, put: &Registry) -> RegisterWrite {
        let rows = put.changed().map(|(place, row)| Operation::Put {
            clustering: place_clustering(place),
            cells: std::iter::once(Some(&stored::encode_registry_row(row)[..])).collect(),
            replace: true,
        });
        RegisterWrite {
            cas: Cas {
                table: Arc::clone(&self.context.tables.registry),
                partition: registry_partition(),
                conditions: vec![condition(RowAddress::Static, before.version())],
                mutations: std::iter::once(put_header(put.version(), &stored::encode_registry(put)))
                    .chain(rows.map(|operation| mutation(operation, None)))
                    .collect(),
            },
            plain: Vec::new(),
        }
    }
}

impl RegistryBackend {
    async fn read_once(&self) -> Result<Registry> {
        let table = &self.context.tables.registry;
        let (options, partition) = (self.context.read_options(), registry_partition());
        let snapshot = self.context.store.snapshot()?;
        let row = |row: RowRef<'_>| {
            let place = row.get(table.partition().len())?;
            let place = i32::from_be_bytes(place.try_into().ok()?).cast_unsigned();
            Some((Place(place), row.get(table.columns().len() - 1)?.to_vec()))
        };
        let mut rows = Vec::new();
        let mut header = None;
        let mut slice = Slice::from_start(table, partition.clone(), READ_ROWS);
        loop {
            let read = self
                .context
                .retry_unknown_table(|| snapshot.slice(&slice, &options))
                .await?;
            if let (None, Some(first)) = (&header, read.rows.iter().next()) {
                header = Some(header_of(first, table)?);
            }
            let found: Option<Vec<_>> = read.rows.iter().map(row).collect();
            rows.extend(found.ok_or_else(|| damaged(table))?);
            match rows.last() {
                Some((last, _)) if !read.exhausted => slice.from = Bound::After(place_clustering(*last)),
                _ => break,
            }
        }
        // Each row includes the static columns, which contain the header. If there is no row, read the header
        // separately.
        let header = match header {
            None => read_header(&self.context, &*snapshot, table, &partition).await?,
            found => found,
        };
        let Some((version, header)) = header else {
            return Ok(Registry::absent());
        };
        let rows = rows.iter().map(|(place, row)| (*place, &row[..]));
        Ok(stored::decode_registry(version, &header, rows)?)
    }
}

//! Comparison of the settings that all queues of a store share with the settings that a schema
//! declares.
//!
//! The queue tables store these settings, and the catalog does not record them. So a change by other means
//! contradicts no schema, and a schema without queue settings leaves the settings unchanged.

use recto_model::Table;
use recto_model::schema::{Change, ChangeKind, Schema, StoreQueues};
use recto_protocol::queues::StoreOptions;

use super::Catalog;
use crate::error::Result;
use crate::options::write_options;
use crate::session::QueueTableSettings;

/// Name of the only option that has an effect if message bodies are not in queue tables.
const UNITS: &str = "units";

/// Settings of the queues of a store, and the queue tables that do not exist yet.
#[derive(Debug)]
pub(crate) struct FoundQueues {
    options: StoreOptions,
    has_ring: bool,
    /// Queue tables that do not exist yet. A process creates them when it first opens queues.
    pub(super) missing: Vec<Table>,
}

impl FoundQueues {
    /// Returns the settings of a store in which no process has opened queues yet. `has_ring` is true if
    /// message bodies are in queue tables.
    pub(crate) fn none(has_ring: bool) -> Self {
        let tables = recto_queues::QueueStore::first_tables(has_ring);
        Self {
            options: StoreOptions::default(),
            has_ring,
            missing: tables.iter().map(|table| Table::clone(table)).collect(),
        }
    }

    /// Reads the settings of queues from the store. Creates nothing.
    pub(super) async fn look(catalog: &Catalog<'_>) -> Result<Self> {
        let mut found = Self::none(!catalog.store.limits().transactions);
        if let Some(options) = stored_options(catalog).await? {
            found.options = options;
            // The process that stored the options had created all queue tables, so none is missing.
            found.missing.clear();
        }
        Ok(found)
    }

    /// Returns the settings in the form of a schema.
    pub(super) fn said(&self) -> StoreQueues {
        self.options.settings().to_schema()
    }

    /// Returns the reason why the store cannot have the requested settings, with the position in the schema's text.
    pub(super) fn refusal(&self, asked: &Schema) -> Option<String> {
        let error = self.options.changed_by(&change_of(asked)).err()?;
        let place = asked.queues.position(error.field());
        let place = place.map_or_else(String::new, |place| format!("{}:{}: ", place.line, place.column));
        Some(format!("{place}queues: {error} ({})", error.hint()))
    }

    /// Describes a change of a setting and its effect in this store.
    pub(super) fn tell(&self, change: &Change, option: &str) -> String {
        if self.has_ring || option == UNITS {
            return change.to_string();
        }
        format!("{change}; it is stored, but has no effect in this store, which needs no queue tables")
    }
}

/// Returns the stored settings that all queues share; `None` if nobody has changed a setting or created a
/// queue. Creates nothing.
pub(crate) async fn stored_options(catalog: &Catalog<'_>) -> Result<Option<StoreOptions>> {
    let (store, environment) = (catalog.store.clone(), catalog.environment.clone());
    let timeout = write_options(catalog.request_timeout).timeout;
    Ok(recto_queues::QueueStore::stored_options(store, environment, timeout).await?)
}

pub(super) fn change_of(asked: &Schema) -> QueueTableSettings {
    QueueTableSettings::of_schema(&asked.queues)
}

pub(super) fn is_of_queues(change: &Change) -> bool {
    matches!(change.kind, ChangeKind::QueueOptionChanged { .. })
}

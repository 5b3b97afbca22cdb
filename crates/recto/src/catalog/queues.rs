//! What holds for all queues of a store, beside what a schema says of that.
//!
//! It is kept where queues are, and recorded nowhere else: so whoever changes it otherwise contradicts no schema, and a schema
//! that says nothing of queues leaves it as it is.

use recto_model::Table;
use recto_model::schema::{Change, ChangeKind, Schema, StoreQueues};
use recto_protocol::queues::StoreOptions;

use super::Catalog;
use crate::error::Result;
use crate::options::write_options;
use crate::session::QueueTableSettings;

/// The only option that matters where bodies are not in queue tables.
const UNITS: &str = "units";

/// What holds for the queues of a store, and which tables they would be given.
#[derive(Debug)]
pub(crate) struct FoundQueues {
    options: StoreOptions,
    has_ring: bool,
    /// Tables that are made when queues are opened.
    pub(super) missing: Vec<Table>,
}

impl FoundQueues {
    /// Where nobody opened any yet.
    pub(crate) fn none(has_ring: bool) -> Self {
        let tables = recto_jobs::QueueStore::first_tables(has_ring);
        Self {
            options: StoreOptions::default(),
            has_ring,
            missing: tables.iter().map(|table| Table::clone(table)).collect(),
        }
    }

    /// Looks, and makes nothing.
    pub(super) async fn look(catalog: &Catalog<'_>) -> Result<Self> {
        let mut found = Self::none(!catalog.store.limits().transactions);
        if let Some(options) = stored_options(catalog).await? {
            found.options = options;
            // Whoever said so had opened them.
            found.missing.clear();
        }
        Ok(found)
    }

    /// As a schema would say it.
    pub(super) fn said(&self) -> StoreQueues {
        self.options.settings().to_schema()
    }

    /// Why a store cannot be like that, with where it stands.
    pub(super) fn refusal(&self, asked: &Schema) -> Option<String> {
        let error = self.options.changed_by(&change_of(asked)).err()?;
        let place = asked.queues.position(error.field());
        let place = place.map_or_else(String::new, |place| format!("{}:{}: ", place.line, place.column));
        Some(format!("{place}queues: {error} ({})", error.hint()))
    }

    /// A change of what holds for queues, with what it means here.
    pub(super) fn tell(&self, change: &Change, option: &str) -> String {
        if self.has_ring || option == UNITS {
            return change.to_string();
        }
        format!("{change}; it is kept, and does nothing in this store, which needs no queue tables")
    }
}

/// What holds for queues, if anybody has said so, or made a queue; nothing is made for that.
pub(crate) async fn stored_options(catalog: &Catalog<'_>) -> Result<Option<StoreOptions>> {
    let (store, environment) = (catalog.store.clone(), catalog.environment.clone());
    let timeout = write_options(catalog.request_timeout).timeout;
    Ok(recto_jobs::QueueStore::stored_options(store, environment, timeout).await?)
}

/// What a schema is to change.
pub(super) fn change_of(asked: &Schema) -> QueueTableSettings {
    QueueTableSettings::of_schema(&asked.queues)
}

/// Whether a change is one of what holds for queues.
pub(super) fn is_of_queues(change: &Change) -> bool {
    matches!(change.kind, ChangeKind::QueueOptionChanged { .. })
}

//! The ring of tables in which bodies lie, in the words of the HTTP API.

use recto_model::schema::StoreQueues;
use recto_protocol::queues::{StoreChange, StoreOptions};
use serde::{Deserialize, Serialize};

/// What all queues of a store go by, or are to go by: what is not said stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RingSettings {
    /// For how long bodies go to one table, before they go to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_seconds: Option<u32>,
    /// For how long nothing refers to a table before it is emptied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin_seconds: Option<u32>,
    /// How many tables slices have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<u32>,
    /// How many work units there may be at once, with a table each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
}

impl RingSettings {
    /// All of what a store says.
    pub fn of(options: &StoreOptions) -> Self {
        Self {
            slice_seconds: Some(options.slice_seconds),
            margin_seconds: Some(options.margin_seconds),
            tables: Some(options.tables.into()),
            units: Some(options.units.into()),
        }
    }

    /// What `[queues]` of a schema says.
    pub fn of_schema(queues: &StoreQueues) -> Self {
        Self {
            slice_seconds: queues.slice_seconds,
            margin_seconds: queues.margin_seconds,
            tables: queues.tables,
            units: queues.units,
        }
    }

    /// As `[queues]` of a schema says it.
    pub fn to_schema(&self) -> StoreQueues {
        let mut queues = StoreQueues::default();
        queues.slice_seconds = self.slice_seconds;
        queues.margin_seconds = self.margin_seconds;
        queues.tables = self.tables;
        queues.units = self.units;
        queues
    }

    /// What these are to change.
    pub fn change(&self) -> StoreChange {
        StoreChange {
            slice_seconds: self.slice_seconds,
            margin_seconds: self.margin_seconds,
            tables: self.tables,
            units: self.units,
        }
    }
}

/// How the tables of bodies stood when they were looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueRing {
    /// Whether bodies lie in such tables; where not, as in an embedded store, they go with their messages, and nothing else here
    /// matters but how many `units` there may be.
    pub needed: bool,
    /// What all queues go by.
    pub options: RingSettings,
    /// The tables, by number.
    pub tables: Vec<RingTable>,
    /// What stands still and why; null where nothing does.
    pub obstacle: Option<String>,
}

/// A table of bodies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingTable {
    /// Its number: no other table ever has it.
    pub number: u32,
    /// What it is called in the store.
    pub name: String,
    /// `free`, `open`, `closing`, `closed`, `emptying`, `unit` or `retired`.
    pub phase: String,
    /// For how long it has been so; null of one that is free or retired.
    pub age_seconds: Option<f64>,
    /// Of which work unit it is, as `QUEUE/UNIT`, if it is of one that has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How many segments have bodies there that may still be needed.
    pub segments: u64,
    /// How many messages were sent to those segments, done with or not.
    pub messages: u64,
    /// How many bytes they have: bodies and attributes, as they were sent. Not what the store's files take.
    #[serde(default)]
    pub bytes: u64,
    /// Whether all of those segments were looked at: of many a look asks 1,024. Else there are so many messages and bytes at least.
    #[serde(default)]
    pub exact: bool,
}

//! The ring of tables in which bodies lie, in the words of the HTTP API.

use recto_queue::StoreOptions;
use recto_queue::limits::MAX_OPTION_TABLES;
use serde::{Deserialize, Serialize};

use super::check_range;
use crate::error::Result;

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

    /// What these make of options.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): a number of tables is greater than any.
    pub fn on(&self, options: &StoreOptions) -> Result<StoreOptions> {
        Ok(StoreOptions {
            slice_seconds: self.slice_seconds.unwrap_or(options.slice_seconds),
            margin_seconds: self.margin_seconds.unwrap_or(options.margin_seconds),
            tables: tables("tables", self.tables, options.tables)?,
            units: tables("units", self.units, options.units)?,
        })
    }
}

fn tables(field: &str, given: Option<u32>, otherwise: u8) -> Result<u8> {
    let Some(given) = given else {
        return Ok(otherwise);
    };
    check_range(field, given, 0..=MAX_OPTION_TABLES.into())?;
    Ok(u8::try_from(given).unwrap_or(u8::MAX))
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
    /// How many messages those had sent to them, done with or not; those of segments that are open are not counted.
    pub messages: u64,
}

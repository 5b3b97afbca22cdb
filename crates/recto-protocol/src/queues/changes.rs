//! What is to be changed of options: what is named, and nothing else. So of two who change different ones at the same moment
//! neither puts back the other's: a change is worked out on what is there when it is written.

use std::ops::RangeInclusive;

use crate::queues::limits::{MAX_OPTION_TABLES, MIN_TABLES};
use crate::queues::options::{DeadLetters, Deduplication, OptionError, QueueOptions, StoreOptions, within};

/// What is to be changed of a queue's options: what is `None` stays as it is. Of [`QueueOptions`]: all of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)] // as of the options of that name
pub struct QueueChange {
    pub visibility_seconds: Option<u32>,
    pub delay_seconds: Option<u32>,
    pub retention_seconds: Option<Option<u32>>,
    pub dead_letters: Option<Option<DeadLetters>>,
    pub is_ordered: Option<bool>,
    pub shards: Option<u16>,
    pub deduplication: Option<Deduplication>,
    pub body_bytes: Option<u32>,
    pub max_in_flight: Option<u32>,
}

impl QueueChange {
    /// What it makes of these options.
    #[must_use]
    pub fn on(&self, options: &QueueOptions) -> QueueOptions {
        QueueOptions {
            visibility_seconds: self.visibility_seconds.unwrap_or(options.visibility_seconds),
            delay_seconds: self.delay_seconds.unwrap_or(options.delay_seconds),
            retention_seconds: self.retention_seconds.unwrap_or(options.retention_seconds),
            dead_letters: self
                .dead_letters
                .clone()
                .unwrap_or_else(|| options.dead_letters.clone()),
            is_ordered: self.is_ordered.unwrap_or(options.is_ordered),
            shards: self.shards.unwrap_or(options.shards),
            deduplication: self.deduplication.unwrap_or(options.deduplication),
            body_bytes: self.body_bytes.unwrap_or(options.body_bytes),
            max_in_flight: self.max_in_flight.unwrap_or(options.max_in_flight),
        }
    }
}

impl From<QueueOptions> for QueueChange {
    fn from(options: QueueOptions) -> Self {
        Self {
            visibility_seconds: Some(options.visibility_seconds),
            delay_seconds: Some(options.delay_seconds),
            retention_seconds: Some(options.retention_seconds),
            dead_letters: Some(options.dead_letters),
            is_ordered: Some(options.is_ordered),
            shards: Some(options.shards),
            deduplication: Some(options.deduplication),
            body_bytes: Some(options.body_bytes),
            max_in_flight: Some(options.max_in_flight),
        }
    }
}

/// What is to be changed of what holds for all queues of a store: what is `None` stays as it is. Of [`StoreOptions`]: all of it.
/// The numbers may be any that somebody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)] // as of the options of that name
pub struct StoreChange {
    pub rotation_seconds: Option<u32>,
    pub grace_seconds: Option<u32>,
    pub tables: Option<u32>,
    pub units: Option<u32>,
}

impl StoreChange {
    /// What it makes of these options.
    ///
    /// # Errors
    /// No store can be like that.
    pub fn on(&self, options: &StoreOptions) -> Result<StoreOptions, OptionError> {
        let most = MAX_OPTION_TABLES.into();
        let changed = StoreOptions {
            rotation_seconds: self.rotation_seconds.unwrap_or(options.rotation_seconds),
            grace_seconds: self.grace_seconds.unwrap_or(options.grace_seconds),
            tables: tables("tables", self.tables, options.tables, MIN_TABLES.into()..=most)?,
            units: tables("units", self.units, options.units, 0..=most)?,
        };
        changed.check()?;
        Ok(changed)
    }
}

impl From<StoreOptions> for StoreChange {
    fn from(options: StoreOptions) -> Self {
        Self {
            rotation_seconds: Some(options.rotation_seconds),
            grace_seconds: Some(options.grace_seconds),
            tables: Some(options.tables.into()),
            units: Some(options.units.into()),
        }
    }
}

fn tables(
    field: &'static str,
    said: Option<u32>,
    otherwise: u8,
    range: RangeInclusive<u32>,
) -> Result<u8, OptionError> {
    let Some(said) = said else {
        return Ok(otherwise);
    };
    within(field, said, range)?;
    Ok(said as u8)
}

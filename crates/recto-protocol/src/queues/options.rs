//! Options of a queue, and of all queues of a store. A user states only the options to change. A
//! conditional write applies the change to the stored options, so concurrent changes of different
//! options are both kept.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use recto_api::queues::{DeadLetterSettings, DeduplicationScope, QueueSettings, QueueTableSettings};

use crate::queues::limits::{
    DEFAULT_IN_FLIGHT, FAR_MICROS, MAX_ATTEMPTS, MAX_BODY_BYTES, MAX_DELAY_SECONDS, MAX_GRACE_SECONDS,
    MAX_IN_FLIGHT, MAX_OPTION_TABLES, MAX_QUEUE_NAME_LENGTH, MAX_RETENTION_SECONDS, MAX_ROTATION_SECONDS,
    MAX_SHARDS, MAX_VISIBILITY_SECONDS, MIN_RETENTION_SECONDS, MIN_ROTATION_SECONDS, MIN_TABLES,
    UNUSED_MICROS,
};
use crate::queues::names::Micros;

const SECOND: Micros = 1_000_000;

/// Suffix that only the names of ordered queues may have.
const FIFO: &str = ".fifo";

/// Maximum delay in an ordered queue, in seconds. Messages with a longer delay go to a separate
/// segment, and would be received out of order.
const MAX_ORDERED_DELAY_SECONDS: u32 = (FAR_MICROS / SECOND) as u32;

/// Name of a queue: 1 to 80 ASCII letters, digits, `-` and `_`, including an optional suffix
/// `.fifo`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

/// Options of a queue. The defaults are those of SQS, except that messages are kept without a time
/// limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueOptions {
    /// Visibility timeout, unless the receiver states one: time for which a receiver has a message
    /// exclusively. 1 to 43,200 s; default 30.
    pub visibility_seconds: u32,
    /// Delay before a message can be received, unless the sender states one. 0 to 2,592,000 s, at
    /// most 900 s in an ordered queue; default 0.
    pub delay_seconds: u32,
    /// Time after which an unacknowledged message is deleted: 60 to 31,536,000 s, and longer than
    /// the delay; `None`: never (default).
    pub retention_seconds: Option<u32>,
    /// Destination of messages that were received too often; `None`: they are received again
    /// without limit.
    pub dead_letters: Option<DeadLetters>,
    /// True if messages have groups, and each group is received in the order of sending. Never
    /// changes.
    pub is_ordered: bool,
    /// Number of shards (parts with their own order): 1 to 64; default 4. Never changes.
    pub shards: u16,
    /// Scope in which a deduplication id is unique: the queue, or each group. An ordered queue with
    /// the scope `Queue` has one shard. Never changes.
    pub deduplication: DeduplicationScope,
    /// Maximum size of a message's body and attributes together: 1 to 1,048,576 bytes; default
    /// 1,048,576.
    pub body_bytes: u32,
    /// Maximum number of messages that receivers have at once: 1 to 1,000,000; default 120,000. The
    /// queue may slightly exceed it.
    pub max_in_flight: u32,
    /// True if the queue accepts messages and delivers none.
    pub is_paused: bool,
}

/// Destination of messages that were received too often.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeadLetters {
    /// Name of the dead-letter queue, which must be another queue. It cannot be deleted while this
    /// option names it.
    pub queue: QueueName,
    /// Number of receives of a message before it goes to the dead-letter queue: 1 to 1,000.
    pub attempts: u16,
}

/// Options of all queues of a store, in the section `[queues]` of a schema file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreOptions {
    /// Time for which a table for message bodies is open before the next one is used: 10 to 604,800
    /// s; default 21,600.
    pub rotation_seconds: u32,
    /// Time for which a body table must be unused before it is emptied: 1 to 86,400 s; default 300.
    /// A process that has read the location of a body must read the body within this time.
    pub grace_seconds: u32,
    /// Number of tables for message bodies that are used in rotation: 2 to 48; default 4.
    pub tables: u8,
    /// Maximum number of temporary queues (work units) at once, each with its own body table: 0 to
    /// 46; default 4. `tables` and `units` together are at most 48.
    pub units: u8,
}

/// Reason why the options or the name of a queue are rejected.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// The text is not a valid name of a queue.
    #[error("`{field}`: {name:?} is not a valid name of a queue")]
    Name {
        /// Option that contains the rejected name.
        field: &'static str,
        /// First 80 characters of the name.
        name: String,
    },
    /// The value of an option is out of its range.
    #[error("`{field}` is {said}; the range is {least} to {most}")]
    Range {
        /// Name of the option.
        field: &'static str,
        /// Rejected value.
        said: u32,
        /// Minimum of the option.
        least: u32,
        /// Maximum of the option.
        most: u32,
    },
    /// Two options contradict each other.
    #[error("`{field}` has an invalid value: {reason}")]
    Conflict {
        /// Name of the option that is easier to change.
        field: &'static str,
        /// Reason why the options contradict each other.
        reason: &'static str,
    },
    /// An option names a queue that does not exist.
    #[error("`{field}`: there is no queue {name}")]
    NoQueue {
        /// Name of the option.
        field: &'static str,
        /// Name of the missing queue.
        name: QueueName,
    },
    /// The dead-letter queues would form a cycle, so that dead letters would return to their queue.
    #[error("`{field}` would send dead letters in a cycle: they would return to this queue")]
    Circle {
        /// Name of the option that would close the cycle.
        field: &'static str,
    },
    /// An option that can never change would change.
    #[error("`{field}` cannot be changed")]
    Fixed {
        /// Name of the option.
        field: &'static str,
    },
}

impl OptionError {
    /// Returns the name of the rejected option.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Name { field, .. }
            | Self::Range { field, .. }
            | Self::Conflict { field, .. }
            | Self::NoQueue { field, .. }
            | Self::Circle { field }
            | Self::Fixed { field } => field,
        }
    }

    /// Returns advice for the user, in the imperative.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Name { .. } => "use 1 to 80 letters, digits, - and _; .fifo is allowed at the end",
            Self::Range { .. } => "use a number in this range, or leave the option out",
            Self::Conflict { .. } => "change this option, or the option that it contradicts",
            Self::NoQueue { .. } => "create that queue first, or use another queue",
            Self::Circle { .. } => {
                "use a queue without a dead-letter queue, or remove the dead-letter queue of that queue first"
            }
            Self::Fixed { .. } => {
                "keep the value, or create another queue and use up the messages of this one"
            }
        }
    }
}

impl QueueName {
    /// Creates a queue name from `text`. Errors name the option `field`.
    ///
    /// # Errors
    /// The text is not a valid name of a queue.
    pub fn new(field: &'static str, text: &str) -> Result<Self, OptionError> {
        let stem = text.strip_suffix(FIFO).unwrap_or(text);
        let is_possible = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_name =
            !stem.is_empty() && text.len() <= MAX_QUEUE_NAME_LENGTH && stem.bytes().all(is_possible);
        if is_name {
            return Ok(Self(text.into()));
        }
        let name = text.chars().take(MAX_QUEUE_NAME_LENGTH).collect();
        Err(OptionError::Name { field, name })
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_of_ordered(&self) -> bool {
        self.0.ends_with(FIFO)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            visibility_seconds: 30,
            delay_seconds: 0,
            retention_seconds: None,
            dead_letters: None,
            is_ordered: false,
            shards: 4,
            deduplication: DeduplicationScope::Queue,
            body_bytes: MAX_BODY_BYTES,
            max_in_flight: DEFAULT_IN_FLIGHT,
            is_paused: false,
        }
    }
}

impl QueueOptions {
    /// Returns the default options of an ordered queue: deduplication ids are unique in each group.
    pub fn ordered() -> Self {
        Self {
            is_ordered: true,
            deduplication: DeduplicationScope::Group,
            ..Self::default()
        }
    }

    /// Returns the options of a new queue: the defaults, changed by `settings`.
    ///
    /// # Errors
    /// The errors of [`changed_by`](Self::changed_by).
    pub fn created_with(settings: &QueueSettings) -> Result<Self, OptionError> {
        let options = Self::default().changed_by(settings)?;
        // If deduplication ids are unique in a whole ordered queue, the queue must have one shard,
        // so the default is 1.
        let is_one = options.is_ordered && options.deduplication == DeduplicationScope::Queue;
        let shards = if is_one { 1 } else { options.shards };
        Ok(Self {
            shards: settings.shards.unwrap_or(shards),
            ..options
        })
    }

    /// Returns the options with the changes in `settings`.
    ///
    /// # Errors
    /// The name of the dead-letter queue is invalid. [`check`](Self::check) finds all other errors.
    pub fn changed_by(&self, settings: &QueueSettings) -> Result<Self, OptionError> {
        let dead_letters = match &settings.dead_letters {
            None => self.dead_letters.clone(),
            Some(None) => None,
            Some(Some(dead)) => Some(DeadLetters {
                queue: QueueName::new("dead_letters.queue", &dead.queue)?,
                attempts: dead.attempts,
            }),
        };
        Ok(Self {
            visibility_seconds: settings.visibility_seconds.unwrap_or(self.visibility_seconds),
            delay_seconds: settings.delay_seconds.unwrap_or(self.delay_seconds),
            retention_seconds: settings.retention_seconds.unwrap_or(self.retention_seconds),
            dead_letters,
            is_ordered: settings.ordered.unwrap_or(self.is_ordered),
            shards: settings.shards.unwrap_or(self.shards),
            deduplication: settings.deduplication.unwrap_or(self.deduplication),
            body_bytes: settings.body_bytes.unwrap_or(self.body_bytes),
            max_in_flight: settings.max_in_flight.unwrap_or(self.max_in_flight),
            is_paused: settings.paused.unwrap_or(self.is_paused),
        })
    }

    /// Returns all options in the form in which users state them.
    pub fn settings(&self) -> QueueSettings {
        QueueSettings {
            visibility_seconds: Some(self.visibility_seconds),
            delay_seconds: Some(self.delay_seconds),
            retention_seconds: Some(self.retention_seconds),
            dead_letters: Some(self.dead_letters.as_ref().map(|dead| DeadLetterSettings {
                queue: dead.queue.as_str().to_owned(),
                attempts: dead.attempts,
            })),
            ordered: Some(self.is_ordered),
            shards: Some(self.shards),
            deduplication: Some(self.deduplication),
            body_bytes: Some(self.body_bytes),
            max_in_flight: Some(self.max_in_flight),
            paused: Some(self.is_paused),
        }
    }

    /// Checks that a queue with this name can have these options, without regard to other queues.
    ///
    /// # Errors
    /// An option is out of its range, or contradicts another option or the name.
    pub fn check(&self, name: &QueueName) -> Result<(), OptionError> {
        within(
            "visibility_seconds",
            self.visibility_seconds,
            1..=MAX_VISIBILITY_SECONDS,
        )?;
        within("delay_seconds", self.delay_seconds, 0..=MAX_DELAY_SECONDS)?;
        self.check_shards()?;
        within("body_bytes", self.body_bytes, 1..=MAX_BODY_BYTES)?;
        within("max_in_flight", self.max_in_flight, 1..=MAX_IN_FLIGHT)?;
        if let Some(retention) = self.retention_seconds {
            within(
                "retention_seconds",
                retention,
                MIN_RETENTION_SECONDS..=MAX_RETENTION_SECONDS,
            )?;
            let is_longer = retention > self.delay_seconds;
            agrees(
                is_longer,
                "retention_seconds",
                "messages would be removed before they can be received",
            )?;
        }
        if let Some(dead) = &self.dead_letters {
            within(
                "dead_letters.attempts",
                dead.attempts.into(),
                1..=MAX_ATTEMPTS.into(),
            )?;
            let is_other = dead.queue != *name;
            agrees(
                is_other,
                "dead_letters.queue",
                "a queue cannot be its own dead-letter queue",
            )?;
        }
        self.check_order(name)
    }

    /// Checks that the number of shards is in its range, without regard to other options.
    ///
    /// # Errors
    /// The number of shards is out of its range.
    pub fn check_shards(&self) -> Result<(), OptionError> {
        within("shards", self.shards.into(), 1..=MAX_SHARDS.into())
    }

    fn check_order(&self, name: &QueueName) -> Result<(), OptionError> {
        let is_per_group = self.deduplication == DeduplicationScope::Group;
        if !self.is_ordered {
            agrees(!name.is_of_ordered(), "ordered", "the name ends with .fifo")?;
            return agrees(!is_per_group, "deduplication", "the queue is not ordered");
        }
        within("delay_seconds", self.delay_seconds, 0..=MAX_ORDERED_DELAY_SECONDS)?;
        let is_one_index = is_per_group || self.shards == 1;
        agrees(
            is_one_index,
            "shards",
            "an ordered queue with deduplication in the whole queue has one shard",
        )
    }

    /// Checks that an existing queue with these options can be changed to the options `to`.
    ///
    /// # Errors
    /// An option that can never change would change.
    pub fn check_change(&self, to: &Self) -> Result<(), OptionError> {
        let is_kept = |is_same: bool, field| {
            if is_same {
                Ok(())
            } else {
                Err(OptionError::Fixed { field })
            }
        };
        is_kept(self.is_ordered == to.is_ordered, "ordered")?;
        is_kept(self.shards == to.shards, "shards")?;
        is_kept(self.deduplication == to.deduplication, "deduplication")
    }

    /// Returns the name of the first option that differs in `other`; `None` if all options are
    /// equal.
    pub fn differs_in(&self, other: &Self) -> Option<&'static str> {
        let Self {
            visibility_seconds,
            delay_seconds,
            retention_seconds,
            dead_letters,
            is_ordered,
            shards,
            deduplication,
            body_bytes,
            max_in_flight,
            is_paused,
        } = other;
        let same = [
            (
                "visibility_seconds",
                self.visibility_seconds == *visibility_seconds,
            ),
            ("delay_seconds", self.delay_seconds == *delay_seconds),
            ("retention_seconds", self.retention_seconds == *retention_seconds),
            ("dead_letters", self.dead_letters == *dead_letters),
            ("ordered", self.is_ordered == *is_ordered),
            ("shards", self.shards == *shards),
            ("deduplication", self.deduplication == *deduplication),
            ("body_bytes", self.body_bytes == *body_bytes),
            ("max_in_flight", self.max_in_flight == *max_in_flight),
            ("paused", self.is_paused == *is_paused),
        ];
        let other = same.into_iter().find(|(_, is_same)| !is_same);
        other.map(|(field, _)| field)
    }

    /// Checks that a queue with the options `to` can be the dead-letter queue of a queue with these
    /// options.
    ///
    /// # Errors
    /// `to` belongs to an ordered queue, and these options to an unordered one, whose messages have
    /// no groups.
    pub(crate) fn check_dead_letters(&self, to: &Self) -> Result<(), OptionError> {
        agrees(
            self.is_ordered || !to.is_ordered,
            "dead_letters.queue",
            "the dead-letter queue is ordered, but messages of this queue have no groups",
        )
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            rotation_seconds: 21_600,
            grace_seconds: (UNUSED_MICROS / SECOND) as u32,
            tables: 4,
            units: 4,
        }
    }
}

impl From<QueueOptions> for QueueSettings {
    fn from(options: QueueOptions) -> Self {
        options.settings()
    }
}

impl From<StoreOptions> for QueueTableSettings {
    fn from(options: StoreOptions) -> Self {
        options.settings()
    }
}

impl StoreOptions {
    /// Returns the options with the changes in `settings`.
    ///
    /// # Errors
    /// An option is out of its range.
    pub fn changed_by(&self, settings: &QueueTableSettings) -> Result<Self, OptionError> {
        let most = MAX_OPTION_TABLES.into();
        let changed = Self {
            rotation_seconds: settings.rotation_seconds.unwrap_or(self.rotation_seconds),
            grace_seconds: settings.grace_seconds.unwrap_or(self.grace_seconds),
            tables: number_of_tables("tables", settings.tables, self.tables, MIN_TABLES.into()..=most)?,
            units: number_of_tables("units", settings.units, self.units, 0..=most)?,
        };
        changed.check()?;
        Ok(changed)
    }

    /// Returns all options in the form in which users state them.
    pub fn settings(&self) -> QueueTableSettings {
        QueueTableSettings {
            rotation_seconds: Some(self.rotation_seconds),
            grace_seconds: Some(self.grace_seconds),
            tables: Some(self.tables.into()),
            units: Some(self.units.into()),
        }
    }

    /// Checks that the options are in their ranges.
    ///
    /// # Errors
    /// An option is out of its range.
    pub fn check(&self) -> Result<(), OptionError> {
        within(
            "rotation_seconds",
            self.rotation_seconds,
            MIN_ROTATION_SECONDS..=MAX_ROTATION_SECONDS,
        )?;
        within("grace_seconds", self.grace_seconds, 1..=MAX_GRACE_SECONDS)?;
        within(
            "tables",
            self.tables.into(),
            MIN_TABLES.into()..=MAX_OPTION_TABLES.into(),
        )?;
        let units = MAX_OPTION_TABLES - self.tables;
        within("units", self.units.into(), 0..=units.into())
    }
}

/// Returns the stated number of tables, or the present number if none is stated.
fn number_of_tables(
    field: &'static str,
    stated: Option<u32>,
    present: u8,
    range: RangeInclusive<u32>,
) -> Result<u8, OptionError> {
    let Some(stated) = stated else {
        return Ok(present);
    };
    within(field, stated, range)?;
    // The cast loses nothing: each `range` ends at `MAX_OPTION_TABLES` or below.
    Ok(stated as u8)
}

fn within(field: &'static str, said: u32, range: RangeInclusive<u32>) -> Result<(), OptionError> {
    let (least, most) = range.into_inner();
    if (least..=most).contains(&said) {
        return Ok(());
    }
    Err(OptionError::Range {
        field,
        said,
        least,
        most,
    })
}

fn agrees(is_so: bool, field: &'static str, reason: &'static str) -> Result<(), OptionError> {
    if is_so {
        return Ok(());
    }
    Err(OptionError::Conflict { field, reason })
}

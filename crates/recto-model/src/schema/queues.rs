//! Options of a schema for the queues of its store.

use super::model::Places;
use super::position::Position;

/// Options in a schema for all queues of its store: the table `[queues]`. If an option is not set,
/// the store keeps its current value.
///
/// This type does not check the range of the options, because the allowed range depends on the
/// state of the store. The implementation of queues checks it.
///
/// ```
/// use recto_model::schema::Schema;
///
/// let schema = Schema::parse("[queues]\nrotation_seconds = 3600")?;
/// assert_eq!(schema.queues.rotation_seconds, Some(3_600));
/// assert_eq!(schema.queues.units, None);
/// # Ok::<(), recto_model::schema::SchemaErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoreQueues {
    /// Rotation interval, in seconds: time during which message bodies are written to one of the
    /// rotating tables, before the next table is used.
    pub rotation_seconds: Option<u32>,
    /// Grace period, in seconds: minimum time from the last reference to a rotating table until the
    /// table is emptied.
    pub grace_seconds: Option<u32>,
    /// Number of rotating tables that contain message bodies.
    pub tables: Option<u32>,
    /// Maximum number of temporary queues that exist at the same time. Each has its own table.
    pub units: Option<u32>,
    /// Positions of the options in the schema text.
    pub(super) places: Places,
}

impl StoreQueues {
    /// Returns the name and the value of each option that the schema sets.
    pub fn said(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let all = [
            ("rotation_seconds", self.rotation_seconds),
            ("grace_seconds", self.grace_seconds),
            ("tables", self.tables),
            ("units", self.units),
        ];
        all.into_iter().filter_map(|(name, said)| Some((name, said?)))
    }

    /// Returns whether no option is set.
    pub fn is_empty(&self) -> bool {
        self.said().next().is_none()
    }

    /// Returns the position of an option in the schema text, or `None` if it is not set or the
    /// schema was not parsed from text.
    pub fn position(&self, option: &str) -> Option<Position> {
        let Places(places) = &self.places;
        places.get(option).copied()
    }
}

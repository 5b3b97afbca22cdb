//! Options of a schema for the queues of its store.

use super::model::Places;
use super::position::Position;

/// Options of a schema for all queues of its store: `[queues]`. An option that is not set keeps its value in
/// the store.
///
/// This type does not check the minimum and maximum of the numbers, which depend on the state of the store.
/// The implementation of queues checks them.
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
    /// Rotation interval: time for which message bodies are written to one table, before they are written to
    /// the next, in seconds.
    pub rotation_seconds: Option<u32>,
    /// Grace period: minimum time from the last reference to a table until the table is emptied, in seconds.
    pub grace_seconds: Option<u32>,
    /// Number of rotating tables for message bodies.
    pub tables: Option<u32>,
    /// Maximum number of temporary queues at a time. Each has its own table.
    pub units: Option<u32>,
    /// Positions of the options in the text of the schema.
    pub(super) places: Places,
}

impl StoreQueues {
    /// Returns the name and the value of each option that is set.
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

    /// Returns the position of an option in the text of the schema, if it was parsed from a text.
    pub fn position(&self, option: &str) -> Option<Position> {
        let Places(places) = &self.places;
        places.get(option).copied()
    }
}

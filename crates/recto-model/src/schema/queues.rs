//! What a schema says of the queues of its store.

use super::model::Places;
use super::position::Position;

/// What a schema says for all queues of its store: `[queues]`. What it does not say stays as it is.
///
/// How small and how great a number may be is not said here, but where queues are kept: it depends on what the store has.
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
    /// For how long bodies go to one table, before they go to the next.
    pub rotation_seconds: Option<u32>,
    /// For how long nothing refers to a table before it is emptied.
    pub grace_seconds: Option<u32>,
    /// How many tables slices have.
    pub tables: Option<u32>,
    /// How many work units there may be at once, with a table each.
    pub units: Option<u32>,
    /// Where that stood in the text.
    pub(super) places: Places,
}

impl StoreQueues {
    /// What it says, by name; what it does not say is not there.
    pub fn said(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let all = [
            ("rotation_seconds", self.rotation_seconds),
            ("grace_seconds", self.grace_seconds),
            ("tables", self.tables),
            ("units", self.units),
        ];
        all.into_iter().filter_map(|(name, said)| Some((name, said?)))
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.said().next().is_none()
    }

    /// Where an option stands in the schema's text, if it was parsed from one.
    pub fn position(&self, option: &str) -> Option<Position> {
        let Places(places) = &self.places;
        places.get(option).copied()
    }
}

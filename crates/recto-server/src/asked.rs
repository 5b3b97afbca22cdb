//! Counters of received queries by shape (the filter without its values, and the sort order). The
//! console's page of views proposes views for them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use recto::design::{Log, MAX_SHAPES, Tally};

/// Maximum number of different query shapes that are counted for each collection.
const MAX_TALLIED: usize = 256;
/// Maximum length of a counted query shape in bytes: filter and sort order together. Longer queries
/// are not typical for lists that people read.
const MAX_TALLIED_BYTES: usize = 1 << 10;

/// Number of requests for each query shape, by collection. A shape is a filter without values, and
/// a sort order.
#[derive(Debug, Default)]
pub(crate) struct AskedQueries {
    by_collection: Mutex<BTreeMap<String, Tally>>,
}

impl AskedQueries {
    /// Counts a query of a collection, which must exist. Ignores a query whose shape is too long.
    pub(crate) fn count(&self, collection: &str, filter: String, order_by: String) {
        if filter.len() + order_by.len() > MAX_TALLIED_BYTES {
            return;
        }
        let mut tallies = self.by_collection.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = match tallies.get_mut(collection) {
            Some(tally) => tally,
            None => tallies
                .entry(collection.to_owned())
                .or_insert_with(|| Tally::new(MAX_TALLIED)),
        };
        tally.count(filter, order_by);
    }

    /// Returns the most frequent query shapes of a collection.
    pub(crate) fn of(&self, collection: &str) -> Log {
        let tallies = self.by_collection.lock().unwrap_or_else(PoisonError::into_inner);
        let log = tallies.get(collection).map(|tally| tally.log(MAX_SHAPES));
        log.unwrap_or_default()
    }
}

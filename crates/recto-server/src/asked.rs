//! Number of queries of each shape that each collection received since the server was started. The
//! console's page of views shows them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use recto::design::{Log, MAX_SHAPES, Tally};

/// Maximum number of different queries that are counted for each collection.
const MAX_TALLIED: usize = 256;
/// Maximum length of a counted query, in bytes: its filter and its sort order together. A longer
/// query is not a typical query of a list for people.
const MAX_TALLIED_BYTES: usize = 1 << 10;

/// Number of requests for each query, by collection. A query is a filter without values, and a sort
/// order.
#[derive(Debug, Default)]
pub(crate) struct AskedQueries {
    by_collection: Mutex<BTreeMap<String, Tally>>,
}

impl AskedQueries {
    /// Counts a request with this query. The collection must exist. A query that is too long is not
    /// counted.
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

    /// Returns the most frequent queries of a collection.
    pub(crate) fn of(&self, collection: &str) -> Log {
        let tallies = self.by_collection.lock().unwrap_or_else(PoisonError::into_inner);
        let log = tallies.get(collection).map(|tally| tally.log(MAX_SHAPES));
        log.unwrap_or_default()
    }
}

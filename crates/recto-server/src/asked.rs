//! The shapes of what was asked of each collection since the server was started, for the console's page of views.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use recto::design::{Log, MAX_SHAPES, Tally};

/// The most different queries of a collection that are counted.
const MAX_TALLIED: usize = 256;
/// The longest shape that is counted, filter and sort, in bytes: no people's list asks for more.
const MAX_TALLIED_BYTES: usize = 1 << 10;

/// How often each query was asked, by collection.
#[derive(Debug, Default)]
pub(crate) struct AskedQueries {
    by_collection: Mutex<BTreeMap<String, Tally>>,
}

impl AskedQueries {
    /// Counts a query of a collection that there is.
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

    /// What was asked of a collection most often.
    pub(crate) fn of(&self, collection: &str) -> Log {
        let tallies = self.by_collection.lock().unwrap_or_else(PoisonError::into_inner);
        let log = tallies.get(collection).map(|tally| tally.log(MAX_SHAPES));
        log.unwrap_or_default()
    }
}

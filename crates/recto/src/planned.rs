//! Plans of queries, and a cache of plans. The next page of a query finds the query's plan in the
//! cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recto_plan::Plan;
use recto_plan::refusal::RejectedView;

/// Maximum number of queries in each of the two generations of the cache.
const MAX_PLANS: usize = 128;
/// Maximum size of the texts of a query whose plans are cached, in bytes.
const MAX_QUERY_BYTES: usize = 1 << 10;
/// Maximum number of sources (ranges of a table) of all plans of a query together. Plans with more
/// sources are not cached.
const MAX_KEPT_SOURCES: usize = 16;

/// Plans of a query, at least one, with the best plan first. The best plan is used, unless a cursor
/// continues in the order of another plan.
pub(crate) type Candidates = Arc<Vec<Arc<Planned>>>;

/// Plan of a query, with the reasons why other views were rejected.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Arc<Plan>,
    pub(crate) rejected: Vec<RejectedView>,
    /// True if the plan reads rows that a row filter hides. The caller must then not learn the cost
    /// of the reads, which would reveal the number of hidden rows.
    pub(crate) hides: bool,
}

/// Cache of the plans of one collection, by the texts of the queries.
///
/// The cache has two generations. A plan that is found in the older generation moves to the newer
/// generation, so that recently used plans stay. When the newer generation is full, it becomes the
/// older generation, and the previous older generation is dropped. Every step takes constant time.
#[derive(Debug, Default)]
pub(crate) struct PlanCache(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    newer: HashMap<PlanKey, Candidates>,
    older: HashMap<PlanKey, Candidates>,
}

/// Key in the cache of plans: the texts and options of a query that determine its plan in a
/// collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey(String);

impl PlanKey {
    /// Returns the key for the texts of a query. Returns `None` if the texts are too long for the
    /// cache, or contain a zero byte.
    pub(crate) fn new<'a>(
        texts: impl Iterator<Item = &'a str> + Clone,
        allow_filter_scan: bool,
    ) -> Option<Self> {
        let bytes = texts.clone().map(|text| text.len() + 1).sum::<usize>();
        if bytes > MAX_QUERY_BYTES {
            return None;
        }
        let mut key = String::with_capacity(bytes + 1);
        key.push(if allow_filter_scan { 'r' } else { '-' });
        for text in texts {
            // The parser rejects texts with a zero byte, so a zero byte can
            // separate texts in the key.
            if text.contains('\0') {
                return None;
            }
            key.push_str(text);
            key.push('\0');
        }
        Some(Self(key))
    }
}

impl PlanCache {
    pub(crate) fn get(&self, key: &PlanKey) -> Option<Candidates> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planned) = generations.newer.get(key) {
            return Some(Arc::clone(planned));
        }
        let (key, planned) = generations.older.remove_entry(key)?;
        generations.insert(key, Arc::clone(&planned));
        Some(planned)
    }

    pub(crate) fn insert(&self, key: PlanKey, planned: &Candidates) {
        let sources = planned.iter().map(|one| one.plan.sources.len());
        if sources.sum::<usize>() > MAX_KEPT_SOURCES {
            return;
        }
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(key, Arc::clone(planned));
    }
}

impl Generations {
    fn insert(&mut self, key: PlanKey, planned: Candidates) {
        if self.newer.len() >= MAX_PLANS {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, planned);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn texts_are_told_apart() {
        let key = |texts: &[&str], filter_scan| PlanKey::new(texts.iter().copied(), filter_scan);
        assert_ne!(key(&["a", "b"], false), key(&["ab", ""], false));
        assert_ne!(key(&["a", "b"], false), key(&["a", "b"], true));
        assert_ne!(key(&["a"], false), key(&["a", ""], false));
        assert_eq!(key(&["a\0", "b"], false), None);
        assert_eq!(key(&[&"x".repeat(MAX_QUERY_BYTES)], false), None);
    }
}

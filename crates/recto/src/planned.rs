//! Plans, and those of queries that come as texts kept for the next page of the same query.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recto_plan::Plan;
use recto_plan::refusal::RejectedView;

/// The most plans of one generation; two generations are kept.
const MAX_PLANS: usize = 128;
/// The longest query that is kept, in bytes of all its texts.
const MAX_QUERY_BYTES: usize = 1 << 10;
/// The most sources of a query's plans that are kept.
const MAX_KEPT_SOURCES: usize = 16;

/// The plans of a query, the best first: it is taken, unless a cursor goes on in the order of another. At least
/// one.
pub(crate) type Candidates = Arc<Vec<Arc<Planned>>>;

/// A plan, and why other views were not taken.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Arc<Plan>,
    pub(crate) rejected: Vec<RejectedView>,
    /// Whether rows are read that a row filter hides: what reading them costs is not for who asks.
    pub(crate) hides: bool,
}

/// Plans of one collection by the texts of their queries.
///
/// Those used lately stay: a plan that is found in the older generation moves to the newer one, and when
/// that is full the older one is let go. Every step takes constant time.
#[derive(Debug, Default)]
pub(crate) struct PlanCache(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    newer: HashMap<PlanKey, Candidates>,
    older: HashMap<PlanKey, Candidates>,
}

/// What a plan depends on, besides its collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey(String);

impl PlanKey {
    /// The key of a query's texts; `None` if they are too long to keep.
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
            // Texts with a zero are refused where they are read: it can stand between them.
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

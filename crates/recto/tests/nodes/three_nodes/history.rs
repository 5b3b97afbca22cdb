//! Log of all writes, from which the tests derive the states that a read may find.
//!
//! Each key has only one writer, so the writes of a key are sequential and their timestamps rise.
//! Reads must therefore follow these rules:
//!
//! - A read that began after a write was acknowledged finds this write or a later write.
//! - A write with an unknown outcome may become visible at any time after it was sent, or never.
//! - A write whose error reports that nothing was written never becomes visible.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Key of a record: index of the collection, index of the tenant, and slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) collection: usize,
    pub(crate) tenant: usize,
    pub(crate) slot: i64,
}

/// State of a key: the version of its record. `None`: there is no record.
pub(crate) type State = Option<i64>;

/// Outcome of a write, as its writer knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The write may be applied, now or later.
    Unknown,
    /// The write was not applied and never will be.
    NotDone,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    sent: u64,
    /// Logical time at which the writer learned the outcome, with this outcome. `None`: the write
    /// is in progress.
    ended: Option<(u64, Outcome)>,
    state: State,
}

/// Log of all writes of a run, with a logical clock.
#[derive(Debug, Default)]
pub(crate) struct History {
    clock: AtomicU64,
    writes: Mutex<BTreeMap<Key, Vec<Write>>>,
}

/// Period of a read, by the logical clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl History {
    /// Advances the logical clock, and returns its time. Each call returns a later time.
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn writes(&self) -> MutexGuard<'_, BTreeMap<Key, Vec<Write>>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a write of these keys is sent now. A state of `None` is a deletion.
    pub(crate) fn sent(&self, changes: &[(Key, State)]) {
        let mut writes = self.writes();
        let sent = self.now();
        for (key, state) in changes {
            writes.entry(*key).or_default().push(Write {
                sent,
                ended: None,
                state: *state,
            });
        }
    }

    /// Records the outcome of the last write of each of these keys.
    pub(crate) fn ended(&self, changes: &[(Key, State)], outcome: Outcome) {
        let mut writes = self.writes();
        let now = self.now();
        for (key, _) in changes {
            let last = writes.get_mut(key).and_then(|writes| writes.last_mut());
            last.expect("it was sent").ended = Some((now, outcome));
        }
    }

    /// Returns the states in which a read during `span` may find each key. Leaves out keys that
    /// were never written, because they have no record.
    pub(crate) fn allowed(&self, span: Span) -> BTreeMap<Key, Vec<State>> {
        let writes = self.writes();
        writes
            .iter()
            .map(|(key, writes)| (*key, allowed(writes, span)))
            .collect()
    }

    /// Returns the number of writes with this outcome.
    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        let writes = self.writes();
        let ended = writes.values().flatten().filter_map(|write| write.ended);
        ended.filter(|(_, ended)| *ended == outcome).count()
    }
}

fn allowed(writes: &[Write], span: Span) -> Vec<State> {
    let is_settled = |write: &Write| {
        write
            .ended
            .is_some_and(|(at, outcome)| outcome == Outcome::Done && at < span.begin)
    };
    let settled = writes.iter().rposition(is_settled);
    let mut states = vec![settled.and_then(|index| writes[index].state)];
    for write in &writes[settled.map_or(0, |index| index + 1)..] {
        let never = write
            .ended
            .is_some_and(|(_, outcome)| outcome == Outcome::NotDone);
        if !never && write.sent < span.end {
            states.push(write.state);
        }
    }
    states
}

#[test]
fn allows_acknowledged_and_unknown_writes_in_reads() {
    let history = History::default();
    let key = Key {
        collection: 0,
        tenant: 0,
        slot: 1,
    };
    let put = |state, outcome| {
        history.sent(&[(key, state)]);
        history.ended(&[(key, state)], outcome);
    };
    let seen = |begin: u64| {
        let end = history.now();
        history.allowed(Span { begin, end })[&key].clone()
    };
    let before = history.now();
    put(Some(1), Outcome::Done);
    let after_first = history.now();
    assert_eq!(seen(before), [None, Some(1)]);
    assert_eq!(seen(after_first), [Some(1)]);
    put(Some(2), Outcome::Unknown);
    put(Some(3), Outcome::NotDone);
    assert_eq!(seen(history.now()), [Some(1), Some(2)]);
    put(None, Outcome::Done);
    assert_eq!(seen(history.now()), [None]);
    assert_eq!(seen(after_first), [Some(1), Some(2), None]);
}

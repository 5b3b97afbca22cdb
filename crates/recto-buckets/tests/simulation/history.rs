//! History of the results that writers and readers received, and the check that they are consistent.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;

/// Index of an event in the history, counted from 1.
pub(crate) type Moment = u64;
/// Index of a write in the history, counted from 0.
pub(crate) type Number = usize;

#[derive(Default)]
pub(crate) struct History(Mutex<HistoryState>);

#[derive(Default)]
struct HistoryState {
    moment: Moment,
    writes: Vec<Write>,
    /// Writes of each key.
    of_key: BTreeMap<i64, Vec<Number>>,
    pages: u64,
    rows: u64,
    wrong: Option<String>,
}

/// Write that puts or deletes a row.
struct Write {
    is_put: bool,
    begun: Moment,
    /// Event of the acknowledgment, and the timestamp of the write.
    acknowledged: Option<(Moment, i64)>,
    /// Upper bound of the timestamps that all attempts of the write used.
    newest_stamp: i64,
    /// Event at which the writer received the outcome, or at which its process ended.
    ended: Moment,
}

/// Result of the read of a page.
pub(crate) struct Page {
    pub(crate) begun: Moment,
    pub(crate) is_backward: bool,
    /// Key after which the page begins, in the direction of the read. `None`: the page begins at the first
    /// row.
    pub(crate) after: Option<i64>,
    /// Last key of the page; `None`: the page reached the end.
    pub(crate) to: Option<i64>,
    /// Keys of the rows, each with the index of the write that put the row.
    pub(crate) rows: Vec<(i64, Number)>,
}

impl History {
    fn said(&self) -> std::sync::MutexGuard<'_, HistoryState> {
        self.0.lock().unwrap()
    }

    pub(crate) fn now(&self) -> Moment {
        let mut said = self.said();
        said.moment += 1;
        said.moment
    }

    /// Records that a process begins a write. Returns the index of the write.
    pub(crate) fn tries(&self, key: i64, is_put: bool) -> Number {
        let begun = self.now();
        let mut said = self.said();
        let number = said.writes.len();
        said.writes.push(Write {
            is_put,
            begun,
            acknowledged: None,
            newest_stamp: i64::MAX,
            ended: Moment::MAX,
        });
        said.of_key.entry(key).or_default().push(number);
        number
    }

    pub(crate) fn acknowledges(&self, number: Number, stamp: i64) {
        let moment = self.now();
        let write = &mut self.said().writes[number];
        write.acknowledged = Some((moment, stamp));
        (write.newest_stamp, write.ended) = (stamp, moment);
    }

    /// Records that the outcome of a write is unknown. The timestamp of the write is at most
    /// `newest_stamp`.
    pub(crate) fn gives_up(&self, number: Number, newest_stamp: i64) {
        let moment = self.now();
        let write = &mut self.said().writes[number];
        (write.newest_stamp, write.ended) = (newest_stamp, moment);
    }

    pub(crate) fn fails(&self, wrong: String) {
        self.said().wrong.get_or_insert(wrong);
    }

    /// Checks the rows of a page against the writes of the history.
    pub(crate) fn reads(&self, page: &Page) {
        let ended = self.now();
        let mut said = self.said();
        said.pages += 1;
        said.rows += page.rows.len() as u64;
        if let Some(wrong) = said.wrong_with(page, ended) {
            said.wrong.get_or_insert(wrong);
        }
    }

    /// Returns a summary of the history, or the first inconsistency.
    pub(crate) fn end(&self) -> Result<String, String> {
        let said = self.said();
        if let Some(wrong) = &said.wrong {
            return Err(wrong.clone());
        }
        let acknowledged = said.writes.iter().filter(|write| write.acknowledged.is_some());
        Ok(format!(
            "{} writes, {} acknowledged, {} pages of {} rows, {} moments",
            said.writes.len(),
            acknowledged.count(),
            said.pages,
            said.rows,
            said.moment
        ))
    }

    pub(crate) fn is_wrong(&self) -> bool {
        self.said().wrong.is_some()
    }
}

impl HistoryState {
    fn wrong_with(&self, page: &Page, ended: Moment) -> Option<String> {
        let follows = |key: i64, before: i64| {
            if page.is_backward {
                key < before
            } else {
                key > before
            }
        };
        let mut before = page.after;
        for (key, _) in &page.rows {
            if before.is_some_and(|before| !follows(*key, before)) {
                return Some(format!("B3: {key} was read behind {before:?}"));
            }
            before = Some(*key);
        }
        let rows: BTreeMap<i64, Number> = page.rows.iter().copied().collect();
        let (after, to) = (
            page.after.map_or(Bound::Unbounded, Bound::Excluded),
            page.to.map_or(Bound::Unbounded, Bound::Included),
        );
        let within = if page.is_backward {
            (to, after)
        } else {
            (after, to)
        };
        if let Some(key) = rows.keys().find(|key| !self.of_key.contains_key(key)) {
            return Some(format!("{key} was read, and nobody wrote it"));
        }
        let mut keys = self.of_key.range(within).map(|(key, _)| key);
        keys.find_map(|key| self.wrong_at(*key, rows.get(key).copied(), page.begun, ended))
    }

    /// Returns an error if the row `read` of a key cannot have been in the state of the store during the
    /// read.
    ///
    /// - The row must not be older than a put that was acknowledged before the read.
    /// - The row must not be older than a deletion, if its puts had ended before the deletion began. If
    ///   clocks differ, a put may have an older timestamp than an earlier deletion. Then the row may exist
    ///   or not.
    /// - The row may be missing only if no put was acknowledged, or if a deletion may be newer than all
    ///   acknowledged puts.
    fn wrong_at(&self, key: i64, read: Option<Number>, begun: Moment, ended: Moment) -> Option<String> {
        let all = self.of_key.get(&key)?;
        let all = || all.iter().map(|number| (*number, &self.writes[*number]));
        let known = all().filter_map(|(number, write)| {
            let (moment, stamp) = write.acknowledged?;
            (moment < begun).then_some((number, write, stamp))
        });
        // At equal timestamps, a deletion wins over a put, so compare with `>=`. Either of two puts
        // may win.
        let may_be_gone = |stamp: i64| {
            let mut deletions = all().filter(|(_, write)| !write.is_put && write.begun < ended);
            deletions.any(|(_, write)| write.newest_stamp >= stamp)
        };
        let Some(read) = read else {
            let puts = known.filter(|(_, write, _)| write.is_put);
            let (stamp, number) = puts.map(|(number, _, stamp)| (stamp, number)).max()?;
            let is_wrong = !may_be_gone(stamp);
            return is_wrong.then(|| format!("B1: {key} is not there, though {number} was put at {stamp}"));
        };
        let write = &self.writes[read];
        if all().all(|(number, _)| number != read) || !write.is_put || write.begun > ended {
            return Some(format!("{key} was read as {read}, which nobody wrote there"));
        }
        let mut newer = known.filter(|(number, _, stamp)| *number != read && *stamp > write.newest_stamp);
        let wrong = newer.find(|(_, other, stamp)| {
            if other.is_put {
                !may_be_gone(*stamp)
            } else {
                other.begun > write.ended
            }
        });
        wrong.map(|(number, other, stamp)| {
            let rule = if other.is_put { "B1" } else { "B2" };
            format!("{rule}: {key} was read as {read}, though {number} was there before, at {stamp}")
        })
    }
}

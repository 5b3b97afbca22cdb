//! Log of the requests and responses of a simulation run, with which the stored data must agree at
//! the end.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use recto_protocol::views::Version;

use super::handles::Handles;
use super::records::Place;

/// Outcome of a change, as far as the client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeAnswer {
    Applied(Version),
    NotApplied,
    Unknown,
}

/// Log of the requests and responses of a simulation run so far.
#[derive(Default)]
pub(crate) struct History {
    told: RefCell<HistoryLog>,
    pub(crate) handles: Handles,
}

#[derive(Default)]
struct HistoryLog {
    /// For each record, the greatest version that was acknowledged, or that a serial read returned.
    newest: BTreeMap<i32, Version>,
    /// For each record, the greatest version that was acknowledged as visible in all views.
    shown: BTreeMap<i32, Version>,
    /// For each record and version, its position in the views, as a response or a page reported it.
    /// `None` if the version is a deletion.
    was: BTreeMap<(i32, Version), Option<Place>>,
    /// Positions in the views to which clients moved each record.
    asked: BTreeSet<(i32, Place)>,
    rows: u64,
    /// Outcome of the append of each entry, by the ids of the record and of the entry. Only ledgers
    /// (records with a growing log) have entries.
    entries: BTreeMap<(i32, u64), ChangeAnswer>,
    next_entry: u64,
    text: String,
    wrong: Option<String>,
    pub(crate) applied: u64,
}

impl History {
    pub(crate) fn newest(&self, id: i32) -> Option<Version> {
        self.told.borrow().newest.get(&id).copied()
    }

    /// Returns the id of a new entry for the log of a record. Until the outcome of its append is
    /// known, the log may contain the entry or not.
    pub(crate) fn entry(&self, id: i32) -> u64 {
        let mut told = self.told.borrow_mut();
        told.next_entry += 1;
        let entry = told.next_entry;
        told.entries.insert((id, entry), ChangeAnswer::Unknown);
        entry
    }

    /// Records the outcome of a change. `before` is the newest known version of the record when the
    /// change began.
    pub(crate) fn says(&self, id: i32, entry: Option<u64>, before: Option<Version>, said: ChangeAnswer) {
        let mut told = self.told.borrow_mut();
        if let ChangeAnswer::Applied(version) = said {
            told.applied += 1;
            if Some(version) <= before {
                let wrong = format!("record {id}: {version:?} was given after {before:?} was known");
                told.wrong.get_or_insert(wrong);
            }
            let newest = told.newest.entry(id).or_insert(version);
            *newest = version.max(*newest);
        }
        if let Some(entry) = entry {
            told.entries.insert((id, entry), said);
        }
        writeln!(told.text, "{id} {entry:?} {said:?}").unwrap();
    }

    /// Records that a client is about to move a record to a position in the views. `None` if the
    /// client deletes the record.
    pub(crate) fn asks(&self, id: i32, place: Option<Place>) {
        self.told
            .borrow_mut()
            .asked
            .extend(place.map(|place| (id, place)));
    }

    /// Records the position of a record in the views for one of its versions, as the store reported
    /// it. `None` if the version is a deletion.
    pub(crate) fn was(&self, id: i32, version: Version, place: Option<Place>, is_shown: bool) {
        let mut told = self.told.borrow_mut();
        let known = *told.was.entry((id, version)).or_insert(place);
        if known != place {
            let wrong = format!("record {id} at {version:?} was {known:?}, and is told to be {place:?}");
            told.wrong.get_or_insert(wrong);
        }
        if is_shown {
            let shown = told.shown.entry(id).or_insert(version);
            *shown = version.max(*shown);
        }
    }

    /// Returns, for each record, the oldest version that a page may show if it is requested now.
    /// For a verified page, it is the newest known version. For other pages, it is the newest
    /// version that was acknowledged as visible.
    pub(crate) fn known(&self, is_verified: bool) -> BTreeMap<i32, Version> {
        let told = self.told.borrow();
        if is_verified {
            told.newest.clone()
        } else {
            told.shown.clone()
        }
    }

    /// Records that a page showed a record. `known` is the result of [`known`](Self::known) at the
    /// time of the page request.
    pub(crate) fn shows(&self, id: i32, version: Version, place: Place, known: &BTreeMap<i32, Version>) {
        self.was(id, version, Some(place), false);
        let mut told = self.told.borrow_mut();
        told.rows += 1;
        if !told.asked.contains(&(id, place)) {
            let wrong = format!("record {id} is shown as {place:?}, which nobody asked for");
            told.wrong.get_or_insert(wrong);
        }
        if Some(&version) < known.get(&id) {
            let wrong = format!(
                "record {id} is shown at {version:?} after {:?} was known",
                known[&id]
            );
            told.wrong.get_or_insert(wrong);
        }
    }

    /// Records an error that a reader found. Only the first error is kept.
    pub(crate) fn is_wrong(&self, wrong: String) {
        self.told.borrow_mut().wrong.get_or_insert(wrong);
    }

    /// Returns the number of rows that pages showed.
    pub(crate) fn rows(&self) -> u64 {
        self.told.borrow().rows
    }

    /// Records that a serial read returned a version of a record, or `None` if the record does not
    /// exist. `before` is the newest known version when the read began.
    pub(crate) fn reads(&self, id: i32, before: Option<Version>, version: Option<Version>) {
        let mut told = self.told.borrow_mut();
        if version < before {
            let wrong = format!("record {id}: {version:?} was read after {before:?} was known");
            told.wrong.get_or_insert(wrong);
        }
        if let Some(version) = version {
            let newest = told.newest.entry(id).or_insert(version);
            *newest = version.max(*newest);
        }
    }

    /// Checks that the log of a record contains each acknowledged entry exactly once, and no
    /// rejected entry.
    pub(crate) fn check_log(&self, id: i32, log: &str) -> Result<(), String> {
        let told = self.told.borrow();
        let entries: Vec<u64> = log
            .split_terminator(',')
            .map(|entry| entry.parse().unwrap())
            .collect();
        for ((_, entry), said) in told.entries.range((id, 0)..(id + 1, 0)) {
            let times = entries.iter().filter(|one| *one == entry).count();
            let is_right = match said {
                ChangeAnswer::Applied(_) => times == 1,
                ChangeAnswer::NotApplied => times == 0,
                ChangeAnswer::Unknown => times <= 1,
            };
            if !is_right {
                return Err(format!(
                    "entry {entry} of record {id}, {said:?}, is there {times} times"
                ));
            }
        }
        Ok(())
    }

    /// Returns the first error found in responses and pages, if there is one.
    pub(crate) fn wrong(&self) -> Result<(), String> {
        self.told.borrow().wrong.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn applied(&self) -> u64 {
        self.told.borrow().applied
    }

    pub(crate) fn text(&self) -> String {
        self.told.borrow().text.clone()
    }
}

//! What a cluster is to one record: a base row that conditional writes change, views that plain writes change, and
//! requests on their way, each of which may come at any time, or never.

use std::collections::BTreeMap;

use super::tiny::{Tiny, TinyEntry};
use crate::change::{EntryOperation, operations_by};
use crate::row::{EntryKey, Found, Row, Tokens, Version};
use crate::rules::{Rule, Rules};
use crate::write::{Conditional, Decision};

pub(crate) type TinyRow = Row<super::tiny::Record, u8>;
pub(crate) type TinyFound = Found<super::tiny::Record, u8>;
pub(crate) type TinyKey = EntryKey<u8>;

/// A request on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// The intent of a process.
    Note(super::world::Intent),
    /// A conditional write; with the number of the change it makes, if it makes one.
    Cas(Conditional<Tiny>, Option<u8>),
    /// Entries, at a version.
    Put(TinyEntry, Version),
    Remove(TinyKey, Version),
    Done(Version),
}

impl Request {
    /// Whether it is a plain write to this view.
    pub(crate) fn is_in(&self, view: crate::row::ViewNumber) -> bool {
        match self {
            Self::Put(entry, _) => entry.key.view == view,
            Self::Remove(key, _) => key.view == view,
            Self::Note(_) | Self::Cas(..) | Self::Done(..) => false,
        }
    }

    /// Whether it is a plain write to a view.
    pub(crate) fn is_entry(&self) -> bool {
        matches!(self, Self::Put(..) | Self::Remove(..))
    }
}

/// One row of a view, as Cassandra has it: cell by cell, and the deletion that hides what is not newer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    deleted: Version,
    marker: Version,
    cell: (Version, Option<u8>),
}

const NEVER: Version = Version(i64::MIN);

impl Default for Slot {
    fn default() -> Self {
        Self {
            deleted: NEVER,
            marker: NEVER,
            cell: (NEVER, None),
        }
    }
}

impl Slot {
    /// What is seen of it: its version and its cell.
    pub(crate) fn seen(&self) -> Option<(Version, Option<u8>)> {
        let cell = (self.cell.1).filter(|_| self.cell.0 > self.deleted);
        (self.marker > self.deleted).then_some((self.marker, cell))
    }

    fn apply(&mut self, operation: &EntryOperation<Option<u8>>) {
        match *operation {
            EntryOperation::Delete(stamp) => self.deleted = self.deleted.max(stamp),
            EntryOperation::Put {
                stamp,
                cells,
                replaces,
            } => {
                self.marker = self.marker.max(stamp);
                if cells.is_some() || replaces {
                    self.cell = self.cell.max((stamp, cells));
                }
            }
        }
        // What a deletion hides is never seen again.
        if self.marker <= self.deleted {
            self.marker = NEVER;
        }
        if self.cell.0 <= self.deleted {
            self.cell = (NEVER, None);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Store {
    pub(crate) base: Option<TinyRow>,
    /// The base row before the last conditional write, while reads that are not serial may miss that one.
    pub(crate) missed: Option<TinyFound>,
    done: Option<Version>,
    views: BTreeMap<TinyKey, Slot>,
}

impl Store {
    pub(crate) fn read(&self) -> TinyFound {
        self.found(self.base.clone())
    }

    pub(crate) fn read_missing(&self) -> Option<TinyFound> {
        Some(self.found(self.missed.clone()?.row))
    }

    fn found(&self, row: Option<TinyRow>) -> TinyFound {
        Found { row, done: self.done }
    }

    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.base.as_ref().map(|row| &row.tokens)
    }

    /// Applies a conditional write if it holds. `is_heard`: whether its sender hears of it, after which no read misses
    /// it.
    pub(crate) fn cas(&mut self, conditional: &Conditional<Tiny>, is_heard: bool) -> Decision {
        self.missed = None;
        if conditional.expected.as_ref() != self.tokens() {
            return Decision::NotApplied(self.tokens().cloned());
        }
        let before = self.base.replace(conditional.row.clone());
        if !is_heard {
            self.missed = Some(self.found(before));
        }
        Decision::Applied
    }

    /// Applies a plain write.
    pub(crate) fn plain(&mut self, request: &Request, rules: Rules) {
        match request {
            Request::Put(entry, version) => {
                let slot = self.views.entry(entry.key.clone()).or_default();
                for operation in operations_by(entry, *version, rules) {
                    slot.apply(&operation);
                }
            }
            Request::Remove(key, version) => {
                let slot = self.views.entry(key.clone()).or_default();
                slot.apply(&EntryOperation::Delete(*version));
            }
            Request::Done(version) => self.done = self.done.max(Some(*version)),
            Request::Note(_) | Request::Cas(..) => {}
        }
    }

    /// Whether a request can change nothing any more, whenever it comes.
    pub(crate) fn is_spent(&self, request: &Request, rules: Rules) -> bool {
        match request {
            Request::Cas(conditional, _) => {
                let recurs = conditional.expected.is_none() && !rules.keeps(Rule::DeletedRowStays);
                conditional.expected.as_ref() != self.tokens() && !recurs
            }
            Request::Note(_) => false,
            plain => {
                let mut after = self.clone();
                after.plain(plain, rules);
                after == *self
            }
        }
    }

    pub(crate) fn drop_view(&mut self, view: crate::row::ViewNumber) {
        self.views.retain(|key, _| key.view != view);
    }

    /// The marker of a deleted record expires: its row is gone.
    pub(crate) fn forget(&mut self) {
        self.base = None;
    }

    /// What views show, of these views.
    pub(crate) fn shown(&self, views: &[crate::row::ViewNumber]) -> Vec<(TinyKey, Version, Option<u8>)> {
        let seen = |(key, slot): (&TinyKey, &Slot)| {
            let (version, cell) = slot.seen()?;
            views.contains(&key.view).then(|| (key.clone(), version, cell))
        };
        self.views.iter().filter_map(seen).collect()
    }

    /// What one key of a view shows.
    pub(crate) fn seen(&self, key: &TinyKey) -> Option<crate::judge::Seen<u8, Option<u8>>> {
        let (version, cells) = self.views.get(key)?.seen()?;
        Some(crate::judge::Seen {
            key: key.clone(),
            version,
            cells,
        })
    }

    /// What views should show.
    pub(crate) fn expected(&self, schema: &Tiny) -> Vec<(TinyKey, Version, Option<u8>)> {
        use crate::arranged::Arranged;
        let Some((row, record)) = self.base.as_ref().and_then(|row| Some((row, row.record?))) else {
            return Vec::new();
        };
        let entries = schema.entries(&record).into_iter();
        let mut entries: Vec<_> = entries
            .map(|entry| (entry.key, row.version, entry.cells))
            .collect();
        entries.sort();
        entries
    }

    /// Whether views show all that they should.
    pub(crate) fn is_complete(&self, schema: &Tiny) -> bool {
        let shown = self.shown(&schema.views);
        self.expected(schema).iter().all(|entry| shown.contains(entry))
    }

    /// Whether views show exactly what they should.
    pub(crate) fn is_exact(&self, schema: &Tiny) -> bool {
        self.shown(&schema.views) == self.expected(schema)
    }
}

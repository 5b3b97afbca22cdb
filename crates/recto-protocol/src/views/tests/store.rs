//! Store of the models of views, for one record: a base row that conditional writes change, views
//! that plain writes change, and requests under way. Each request may arrive at any time or never.

use std::collections::BTreeMap;

use super::buckets::Cut;
use super::tiny::{Tiny, TinyEntry};
use crate::views::change::{EntryOperation, operations_by};
use crate::views::row::{EntryKey, Found, Row, Tokens, Version};
use crate::views::rules::{Rule, Rules};
use crate::views::write::{Conditional, Decision};

pub(crate) type TinyRow = Row<super::tiny::Record, u8>;
pub(crate) type TinyFound = Found<super::tiny::Record, u8>;
pub(crate) type TinyKey = EntryKey<u8>;

/// Request to the store that has not arrived.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(clippy::large_enum_variant, reason = "a model has few of them")]
pub(crate) enum Request {
    /// Stores an intent: the note that a process will change the record.
    Note(super::world::Intent),
    /// Sends a conditional write. The number identifies the change that the write makes; `None`: it
    /// makes none.
    Cas(Conditional<Tiny>, Option<u8>),
    /// Puts an entry with this version into the view, in this bucket.
    Put(TinyEntry, Version, u8),
    Remove(TinyKey, Version, u8),
    Done(Version),
}

impl Request {
    /// Returns whether the request is a plain write to this view.
    pub(crate) fn is_in(&self, view: crate::views::row::ViewNumber) -> bool {
        match self {
            Self::Put(entry, ..) => entry.key.view == view,
            Self::Remove(key, ..) => key.view == view,
            Self::Note(_) | Self::Cas(..) | Self::Done(..) => false,
        }
    }

    /// Returns the key of the entry that the request writes, and whether it puts the entry; `None`:
    /// it writes no entry.
    pub(crate) fn entry(&self) -> Option<(&TinyKey, bool)> {
        match self {
            Self::Put(entry, ..) => Some((&entry.key, true)),
            Self::Remove(key, ..) => Some((key, false)),
            Self::Note(_) | Self::Cas(..) | Self::Done(..) => None,
        }
    }

    /// Returns a copy of the request for another bucket.
    pub(crate) fn to(&self, bucket: u8) -> Self {
        let mut sent = self.clone();
        if let Self::Put(_, _, to) | Self::Remove(_, _, to) = &mut sent {
            *to = bucket;
        }
        sent
    }

    /// Returns whether the request is a plain write to a view.
    pub(crate) fn is_entry(&self) -> bool {
        matches!(self, Self::Put(..) | Self::Remove(..))
    }
}

/// Row of a view, as in Cassandra: each cell has a write timestamp, and a deletion hides all cells
/// that are not newer.
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
    /// Returns the version and the cell that a reader sees; `None`: the row does not exist.
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
        // Remove cells that are not newer than a deletion, because it hides them forever.
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
    /// Base row before the last conditional write, as long as a read without serial consistency may
    /// return it.
    pub(crate) missed: Option<TinyFound>,
    done: Option<Version>,
    views: BTreeMap<(TinyKey, u8), Slot>,
    pub(crate) cuts: Vec<Cut>,
    /// Orphan: a view entry that no change wrote, and its version.
    orphan: Option<(TinyKey, Version)>,
}

impl Store {
    pub(crate) fn plant_orphan(&mut self, place: u8, version: Version) {
        let key = EntryKey {
            view: super::tiny::BY_PLACE,
            key: place,
        };
        let put = EntryOperation::Put {
            stamp: version,
            cells: None,
            replaces: true,
        };
        self.views.entry((key.clone(), 0)).or_default().apply(&put);
        self.orphan = Some((key, version));
    }

    /// Returns whether the orphan (entry that no change wrote) is deleted.
    pub(crate) fn has_removed_orphan(&self) -> bool {
        self.orphan
            .as_ref()
            .is_some_and(|(key, version)| self.slot(key, 0).deleted >= *version)
    }

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

    /// Applies a conditional write if its condition holds. If `is_heard`, its sender receives the
    /// result, and no later read misses the write.
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

    /// Applies a plain write to a view, or the mark that all entries are written.
    pub(crate) fn plain(&mut self, request: &Request, rules: Rules) {
        match request {
            Request::Put(entry, version, bucket) => {
                let slot = self.views.entry((entry.key.clone(), *bucket)).or_default();
                for operation in operations_by(entry, *version, rules) {
                    slot.apply(&operation);
                }
            }
            Request::Remove(key, version, bucket) => {
                let slot = self.views.entry((key.clone(), *bucket)).or_default();
                slot.apply(&EntryOperation::Delete(*version));
            }
            Request::Done(version) => self.done = self.done.max(Some(*version)),
            Request::Note(_) | Request::Cas(..) => {}
        }
    }

    /// Returns whether the request can never change the store any more.
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

    pub(crate) fn drop_view(&mut self, view: crate::views::row::ViewNumber) {
        self.views.retain(|(key, _), _| key.view != view);
    }

    /// Removes the row of a deleted record, as its expiry does.
    pub(crate) fn forget(&mut self) {
        self.base = None;
    }

    pub(crate) fn slot(&self, key: &TinyKey, bucket: u8) -> Slot {
        let there = self.views.get(&(key.clone(), bucket));
        there.cloned().unwrap_or_default()
    }

    /// Copies a whole row to another bucket, with its own timestamp.
    pub(crate) fn copy_to(&mut self, key: &TinyKey, bucket: u8, row: &Slot) {
        let Some((stamp, cells)) = row.seen() else { return };
        let put = EntryOperation::Put {
            stamp,
            cells,
            replaces: true,
        };
        self.views.entry((key.clone(), bucket)).or_default().apply(&put);
    }

    /// Returns the entries that these views show, without the orphan. If `oldest`, the reader has
    /// the oldest range map that has not expired.
    pub(crate) fn shown(
        &self,
        views: &[crate::views::row::ViewNumber],
        oldest: bool,
    ) -> Vec<(TinyKey, Version, Option<u8>)> {
        let seen = |((key, bucket), slot): (&(TinyKey, u8), &Slot)| {
            let (version, cell) = slot.seen()?;
            let is_read = views.contains(&key.view) && *bucket == self.reads(key, oldest);
            let is_orphan = self.orphan.as_ref() == Some(&(key.clone(), version));
            (is_read && !is_orphan).then(|| (key.clone(), version, cell))
        };
        self.views.iter().filter_map(seen).collect()
    }

    /// Returns the entry that a reader sees at this key of a view.
    pub(crate) fn seen(&self, key: &TinyKey) -> Option<crate::views::judge::Seen<u8, Option<u8>>> {
        let (version, cells) = self.slot(key, self.reads(key, false)).seen()?;
        Some(crate::views::judge::Seen {
            key: key.clone(),
            version,
            cells,
        })
    }

    /// Returns the entries that the views must show.
    pub(crate) fn expected(&self, schema: &Tiny) -> Vec<(TinyKey, Version, Option<u8>)> {
        use crate::views::arranged::Arranged;
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

    /// Returns whether the views show all entries that they must show.
    pub(crate) fn is_complete(&self, schema: &Tiny) -> bool {
        let shown = self.shown(&schema.views, false);
        self.expected(schema).iter().all(|entry| shown.contains(entry))
    }

    /// Returns whether the views show exactly the entries that they must show.
    pub(crate) fn is_exact(&self, schema: &Tiny) -> bool {
        let expected = self.expected(schema);
        let is_exact = |oldest| self.shown(&schema.views, oldest) == expected;
        is_exact(false) && (self.cuts.is_empty() || is_exact(true))
    }
}

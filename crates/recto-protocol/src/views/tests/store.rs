//! What a cluster is to one record: a base row that conditional writes change, views that plain writes change, and
//! requests on their way, each of which may come at any time, or never.

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

/// A request on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(clippy::large_enum_variant, reason = "a model has few of them")]
pub(crate) enum Request {
    /// The intent of a process.
    Note(super::world::Intent),
    /// A conditional write; with the number of the change it makes, if it makes one.
    Cas(Conditional<Tiny>, Option<u8>),
    /// Entries, at a version, in a bucket.
    Put(TinyEntry, Version, u8),
    Remove(TinyKey, Version, u8),
    Done(Version),
}

impl Request {
    /// Whether it is a plain write to this view.
    pub(crate) fn is_in(&self, view: crate::views::row::ViewNumber) -> bool {
        match self {
            Self::Put(entry, ..) => entry.key.view == view,
            Self::Remove(key, ..) => key.view == view,
            Self::Note(_) | Self::Cas(..) | Self::Done(..) => false,
        }
    }

    /// The entry that it writes, and whether it puts it.
    pub(crate) fn entry(&self) -> Option<(&TinyKey, bool)> {
        match self {
            Self::Put(entry, ..) => Some((&entry.key, true)),
            Self::Remove(key, ..) => Some((key, false)),
            Self::Note(_) | Self::Cas(..) | Self::Done(..) => None,
        }
    }

    /// The same, to another bucket.
    pub(crate) fn to(&self, bucket: u8) -> Self {
        let mut sent = self.clone();
        if let Self::Put(_, _, to) | Self::Remove(_, _, to) = &mut sent {
            *to = bucket;
        }
        sent
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
    views: BTreeMap<(TinyKey, u8), Slot>,
    pub(crate) cuts: Vec<Cut>,
    /// The entry that no change wrote, and its version.
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

    /// Returns true if the orphan is deleted at its own stamp.
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

    pub(crate) fn drop_view(&mut self, view: crate::views::row::ViewNumber) {
        self.views.retain(|(key, _), _| key.view != view);
    }

    /// The marker of a deleted record expires: its row is gone.
    pub(crate) fn forget(&mut self) {
        self.base = None;
    }

    pub(crate) fn slot(&self, key: &TinyKey, bucket: u8) -> Slot {
        let there = self.views.get(&(key.clone(), bucket));
        there.cloned().unwrap_or_default()
    }

    /// A row comes to another bucket, whole, at its own stamp.
    pub(crate) fn copy_to(&mut self, key: &TinyKey, bucket: u8, row: &Slot) {
        let Some((stamp, cells)) = row.seen() else { return };
        let put = EntryOperation::Put {
            stamp,
            cells,
            replaces: true,
        };
        self.views.entry((key.clone(), bucket)).or_default().apply(&put);
    }

    /// Returns the entries of these views without the orphan. With `oldest`, a reader has the oldest copy of the directory.
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

    /// What one key of a view shows.
    pub(crate) fn seen(&self, key: &TinyKey) -> Option<crate::views::judge::Seen<u8, Option<u8>>> {
        let (version, cells) = self.slot(key, self.reads(key, false)).seen()?;
        Some(crate::views::judge::Seen {
            key: key.clone(),
            version,
            cells,
        })
    }

    /// What views should show.
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

    /// Whether views show all that they should.
    pub(crate) fn is_complete(&self, schema: &Tiny) -> bool {
        let shown = self.shown(&schema.views, false);
        self.expected(schema).iter().all(|entry| shown.contains(entry))
    }

    /// Whether views show exactly what they should.
    pub(crate) fn is_exact(&self, schema: &Tiny) -> bool {
        let expected = self.expected(schema);
        let is_exact = |oldest| self.shown(&schema.views, oldest) == expected;
        is_exact(false) && (self.cuts.is_empty() || is_exact(true))
    }
}

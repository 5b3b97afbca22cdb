//! Tiny collection for the models, which explore all possible events of one record.

use crate::views::arranged::Arranged;
use crate::views::change::{Change, Request};
use crate::views::misfit::Misfit;
use crate::views::row::{Entry, EntryKey, Generation, Version, ViewNumber};

/// Record: a place, which a view is partitioned by, and a note that may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) place: u8,
    pub(crate) note: Option<u8>,
}

/// New value of one field of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Patch {
    Place(u8),
    Note(Option<u8>),
}

/// Id of the view by place. Its entries also contain the note.
pub(crate) const BY_PLACE: ViewNumber = ViewNumber(1);
/// Id of the view by note. Its entries also contain the place. It excludes records without a note.
pub(crate) const BY_NOTE: ViewNumber = ViewNumber(2);
/// Id of a second view by place, which a later schema adds.
pub(crate) const ADDED: ViewNumber = ViewNumber(3);

/// Collection of the models, under one version of its schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Tiny {
    pub(crate) generation: Generation,
    pub(crate) views: Vec<ViewNumber>,
}

impl Tiny {
    pub(crate) fn new(generation: u64, views: &[ViewNumber]) -> Self {
        Self {
            generation: Generation(generation),
            views: views.to_vec(),
        }
    }
}

pub(crate) type TinyEntry = Entry<u8, Option<u8>>;
pub(crate) type TinyRequest = Request<Record, Patch>;

impl Arranged for Tiny {
    type Record = Record;
    type Patch = Patch;
    type Key = u8;
    type Cells = Option<u8>;

    fn generation(&self) -> Generation {
        self.generation
    }

    fn entries(&self, record: &Record) -> Vec<TinyEntry> {
        let entry = |view: &ViewNumber| {
            let (key, cells) = match *view {
                BY_NOTE => (record.note?, Some(record.place)),
                _ => (record.place, record.note),
            };
            Some(Entry {
                key: EntryKey { view: *view, key },
                has_nulls: cells.is_none(),
                cells,
            })
        };
        self.views.iter().filter_map(entry).collect()
    }

    fn misfits(&self, _: &Record) -> Vec<Misfit> {
        Vec::new()
    }

    fn has_same_value(&self, _: usize, one: &Record, other: &Record) -> bool {
        one == other
    }

    fn has_view(&self, view: ViewNumber) -> bool {
        self.views.contains(&view)
    }

    fn view_count(&self) -> usize {
        self.views.len()
    }

    fn key_bytes(&self, _: &u8) -> usize {
        1
    }

    fn patched(&self, record: &Record, patch: &Patch) -> Record {
        match *patch {
            Patch::Place(place) => Record { place, ..*record },
            Patch::Note(note) => Record { note, ..*record },
        }
    }
}

pub(crate) const fn record(place: u8, note: Option<u8>) -> Record {
    Record { place, note }
}

const fn request(change: Change<Record, Patch>) -> TinyRequest {
    Request {
        change,
        if_version: None,
    }
}

pub(crate) const fn insert(place: u8) -> TinyRequest {
    request(Change::Insert {
        record: record(place, None),
        expires_at: None,
    })
}

pub(crate) const fn put(place: u8, note: Option<u8>) -> TinyRequest {
    request(Change::Put {
        record: record(place, note),
        expires_at: None,
    })
}

/// Returns a request that puts a record which expires at the time `at`.
pub(crate) const fn expiring(place: u8, at: i64) -> TinyRequest {
    request(Change::Put {
        record: record(place, None),
        expires_at: Some(at),
    })
}

pub(crate) const fn move_to(place: u8) -> TinyRequest {
    request(Change::Update(Patch::Place(place)))
}

pub(crate) const fn note(note: Option<u8>) -> TinyRequest {
    request(Change::Update(Patch::Note(note)))
}

pub(crate) const fn delete() -> TinyRequest {
    request(Change::Delete)
}

/// Returns a request that only increases the version of the record, above `above`.
pub(crate) const fn raise(above: i64) -> TinyRequest {
    request(Change::Raise(Version(above)))
}

/// Adds the condition that the stored version is `version`.
pub(crate) const fn at(version: i64, mut request: TinyRequest) -> TinyRequest {
    request.if_version = Some(Version(version));
    request
}

//! The collection: records with a log that only grows, and records to which anything happens.

use std::sync::Arc;

use recto::schema::Schema;
use recto::store::{ConsistencyLevel, PointRead, ReadOptions, Store};
use recto::{ApplyOptions, Recto};
use recto_model::{Cells, Table};
use recto_views::{
    BaseTable, Change, FieldCells, Found, Generation, KeyCells, Micros, Request, Version, ViewNumber,
    ViewedCollection,
};

pub(crate) const SCHEMA: &str = r#"
[collection.records]
fields = { id = "int", status = "text", at = "int", log = "text", note = "text" }
key = ["id"]

[collection.records.view.by_status]
partition = ["status"]
order = ["-at"]
nulls = "last"

[collection.records.view.by_note]
partition = ["note"]
order = ["at"]
nulls = "skip"
fields = ["status"]
verify = false
"#;

/// What the schema becomes: a view is added, one is changed, one is dropped.
pub(crate) const CHANGED_SCHEMA: &str = r#"
[collection.records]
fields = { id = "int", status = "text", at = "int", log = "text", note = "text" }
key = ["id"]

[collection.records.view.by_status]
partition = ["status"]
order = ["at"]

[collection.records.view.by_place]
partition = ["note", "status"]
order = ["-at"]
nulls = "skip"
"#;

/// Changes the schema to that.
pub(crate) async fn change_schema(recto: &Recto) -> recto::Result<()> {
    let schema = Schema::parse(CHANGED_SCHEMA).unwrap();
    // Another may have begun, or this one before.
    let has_it = recto.schema().to_toml().contains("by_note");
    let options = if has_it {
        ApplyOptions::new().remove("records.by_note")
    } else {
        ApplyOptions::new()
    };
    recto.apply_with(&schema, &options).await.map(drop)
}

pub(crate) const COLLECTION: &str = "records";
/// Records whose log grows, by changes on condition of the version that was read.
pub(crate) const LEDGERS: i32 = 2;
/// These, and those that are put, inserted and deleted.
pub(crate) const RECORDS: i32 = 4;
/// Records that nothing happens to, beside these.
pub(crate) const STAYING: i32 = 5;

const STATUS: usize = 1;
const AT: usize = 2;
const LOG: usize = 3;
const NOTE: usize = 4;

/// The collection's tables.
pub(crate) struct Tables {
    pub(crate) schema: Arc<Schema>,
    pub(crate) base: BaseTable,
    pub(crate) views: ViewedCollection,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self::of(SCHEMA, |view| if view == "by_status" { 1 } else { 2 })
    }

    /// Those of a schema whose views have these numbers.
    pub(crate) fn of(schema: &str, number_of: impl Fn(&str) -> u64) -> Self {
        let schema = Schema::parse(schema).unwrap();
        let collection = &schema.collections[0];
        let views = collection.views.iter();
        let views = views.map(|view| (ViewNumber(number_of(&view.name)), view));
        Self {
            base: BaseTable::new(collection).unwrap(),
            views: ViewedCollection::new(Generation(2), collection, views).unwrap(),
            schema: Arc::new(schema),
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Table>> {
        let views = self.views.views().iter().map(|view| Arc::clone(view.table()));
        std::iter::once(Arc::clone(self.base.table()))
            .chain(views)
            .collect()
    }

    /// A record as it stands in the store.
    pub(crate) async fn read(
        &self,
        store: &dyn Store,
        id: i32,
        level: Option<ConsistencyLevel>,
    ) -> Option<Found<Cells, KeyCells>> {
        let read = PointRead {
            table: Arc::clone(self.base.table()),
            partition: key(id),
            clustering: Cells::new(),
        };
        let options = ReadOptions {
            consistency: level,
            ..ReadOptions::default()
        };
        let read = store.snapshot().unwrap().get(&read, &options).await.ok()?;
        let row = read.rows.iter().next();
        Some(row.map_or(Found::absent(), |row| self.base.found(row).unwrap()))
    }
}

pub(crate) fn key(id: i32) -> Cells {
    std::iter::once(Some(&id.to_be_bytes()[..])).collect()
}

/// What a record holds beside its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) status: Option<u8>,
    pub(crate) at: Option<i32>,
    pub(crate) log: String,
    pub(crate) note: Option<u8>,
}

/// Where a record stands in the views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) status: Option<u8>,
    pub(crate) at: Option<i32>,
    pub(crate) note: Option<u8>,
}

impl Place {
    /// Where one stands that nothing happens to.
    pub(crate) fn of_staying(id: i32) -> Self {
        Self {
            status: Some(u8::from(id % 2 == 0)),
            at: Some(id % 3),
            note: Some(0),
        }
    }

    /// Where a record is to stand when this is done; none if it is to be deleted.
    pub(crate) fn asked(asked: &Asked) -> Option<Self> {
        match &asked.change {
            Change::Put { record, .. } | Change::Insert { record, .. } => Some(Fields::of(record).place()),
            Change::Update(update) => Some(Self::of(&update.cells, [0, 1, 2])),
            _ => None,
        }
    }

    fn of(cells: &Cells, [status, at, note]: [usize; 3]) -> Self {
        let letter = |field| cells.get(field).map(|cell| cell[0] - b'a');
        Self {
            status: letter(status),
            at: cells
                .get(at)
                .map(|cell| i32::from_be_bytes(cell.try_into().unwrap())),
            note: letter(note),
        }
    }
}

fn letter(which: Option<u8>) -> Option<[u8; 1]> {
    which.map(|which| [b'a' + which])
}

impl Fields {
    pub(crate) fn record(&self, id: i32) -> Cells {
        let (status, note) = (letter(self.status), letter(self.note));
        let at = self.at.map(i32::to_be_bytes);
        let mut cells = Cells::new();
        cells.push(Some(&id.to_be_bytes()));
        cells.push(status.as_ref().map(|cell| &cell[..]));
        cells.push(at.as_ref().map(|cell| &cell[..]));
        cells.push(Some(self.log.as_bytes()));
        cells.push(note.as_ref().map(|cell| &cell[..]));
        cells
    }

    pub(crate) fn of(record: &Cells) -> Self {
        let Place { status, at, note } = Place::of(record, [STATUS, AT, NOTE]);
        Self {
            status,
            at,
            log: String::from_utf8(record.get(LOG).unwrap_or_default().to_vec()).unwrap(),
            note,
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            status: self.status,
            at: self.at,
            note: self.note,
        }
    }
}

pub(crate) type Asked = Request<Cells, FieldCells>;

pub(crate) fn put(
    id: i32,
    fields: &Fields,
    expires_at: Option<Micros>,
    if_version: Option<Version>,
) -> Asked {
    let record = fields.record(id);
    Request {
        change: Change::Put { record, expires_at },
        if_version,
    }
}

pub(crate) fn insert(id: i32, fields: &Fields) -> Asked {
    Request {
        change: Change::Insert {
            record: fields.record(id),
            expires_at: None,
        },
        if_version: None,
    }
}

pub(crate) fn delete() -> Asked {
    Request {
        change: Change::Delete,
        if_version: None,
    }
}

/// Another place in the views, whatever else the record says.
pub(crate) fn move_to(status: Option<u8>, at: Option<i32>, note: Option<u8>) -> Asked {
    let (status, note) = (letter(status), letter(note));
    let at = at.map(i32::to_be_bytes);
    let mut cells = Cells::new();
    cells.push(status.as_ref().map(|cell| &cell[..]));
    cells.push(at.as_ref().map(|cell| &cell[..]));
    cells.push(note.as_ref().map(|cell| &cell[..]));
    Request {
        change: Change::Update(FieldCells {
            fields: vec![STATUS, AT, NOTE],
            cells,
        }),
        if_version: None,
    }
}

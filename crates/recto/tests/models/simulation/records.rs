//! Collection of the simulation. Some of its records (ledgers) have a log that only grows. Others
//! are changed in every way.

use std::sync::Arc;
use std::time::Duration;

use recto::schema::{Collection, Schema};
use recto::store::{ConsistencyLevel, PointRead, ReadOptions, Store};
use recto::{ApplyOptions, Changed, DynamicRecord, Recto};
use recto_model::{Cells, Table};
use recto_protocol::views::{
    BaseTable, ClaimsTable, Found, Generation, KeyCells, Version, ViewNumber, ViewedCollection,
};
use serde_json::json;

pub(crate) const SCHEMA: &str = r#"
[collection.records]
fields = { id = "int", status = "text", at = "int", log = "text", note = "text", handle = "text" }
key = ["id"]
unique = ["handle"]

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

/// Schema after the change: it adds a view, changes one, and drops one.
pub(crate) const CHANGED_SCHEMA: &str = r#"
[collection.records]
fields = { id = "int", status = "text", at = "int", log = "text", note = "text", handle = "text" }
key = ["id"]
unique = ["handle"]

[collection.records.view.by_status]
partition = ["status"]
order = ["at"]

[collection.records.view.by_place]
partition = ["note", "status"]
order = ["-at"]
nulls = "skip"
"#;

/// Parses a schema. If `in_buckets` is true, its views are divided into buckets of at most two
/// rows.
fn schema(text: &str, in_buckets: bool) -> Schema {
    let bucket = if in_buckets { "bucket = { rows = 2 }\n" } else { "" };
    let text = text.replace("order = [", &format!("{bucket}order = ["));
    Schema::parse(&text).unwrap()
}

/// Changes the schema to [`CHANGED_SCHEMA`], with or without buckets.
pub(crate) async fn change_schema(recto: &Recto, in_buckets: bool) -> recto::Result<()> {
    let schema = schema(CHANGED_SCHEMA, in_buckets);
    // The change may have been made before, by this or another process. Remove the view only if it
    // still exists.
    let has_it = recto.schema().to_toml().contains("by_note");
    let options = if has_it {
        ApplyOptions::new().remove("records.by_note")
    } else {
        ApplyOptions::new()
    };
    recto.apply_with(&schema, &options).await.map(drop)
}

/// Returns the tables of [`CHANGED_SCHEMA`], after the schema was applied.
pub(crate) async fn changed_tables(recto: &Recto, in_buckets: bool) -> Tables {
    let statuses = recto.views().await.unwrap();
    let number = |view: &str| statuses.iter().find(|one| one.view == view).unwrap().number;
    Tables::of(schema(CHANGED_SCHEMA, in_buckets), number)
}

pub(crate) const COLLECTION: &str = "records";
/// Number of ledgers: records whose log grows. Each change of a ledger is conditional on the
/// version that the client read.
pub(crate) const LEDGERS: i32 = 2;
/// Number of frequently changed records: the ledgers, and records that are put, inserted and
/// deleted.
pub(crate) const RECORDS: i32 = 4;
/// Number of records that no process changes.
pub(crate) const STAYING: i32 = 5;
/// Number of records that change rarely, so that a wrong change is not hidden by the next one.
pub(crate) const RARE: i32 = 16;
/// Number of all records.
pub(crate) const ALL: i32 = RECORDS + STAYING + RARE;

const STATUS: usize = 1;
const AT: usize = 2;
const LOG: usize = 3;
const NOTE: usize = 4;
const HANDLE: usize = 5;
/// Id of the table of claims (reservations) of handles, in the numbering of views.
const UNIQUE: ViewNumber = ViewNumber(3);

/// Tables of the collection: the base table, views and claims.
pub(crate) struct Tables {
    pub(crate) schema: Arc<Schema>,
    pub(crate) base: BaseTable,
    pub(crate) views: ViewedCollection,
}

impl Tables {
    pub(crate) fn new(in_buckets: bool) -> Self {
        let number = |view: &str| if view == "by_status" { 1 } else { 2 };
        Self::of(schema(SCHEMA, in_buckets), number)
    }

    /// Returns the tables of a schema. `number_of` returns the number in the name of a view's
    /// table.
    fn of(schema: Schema, number_of: impl Fn(&str) -> u64) -> Self {
        let collection = &schema.collections[0];
        let views = collection.views.iter();
        let views = views.map(|view| (ViewNumber(number_of(&view.name)), collection.arranged(view)));
        let views = ViewedCollection::new(Generation(2), collection, views).unwrap();
        let unique = ClaimsTable::new(UNIQUE, collection, &collection.unique[0], false).unwrap();
        Self {
            base: BaseTable::new(collection).unwrap(),
            views: views.with_unique([unique]),
            schema: Arc::new(schema),
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Table>> {
        let views = self.views.views().iter().map(|view| Arc::clone(view.table()));
        let claims = self.views.claims_tables().iter();
        std::iter::once(Arc::clone(self.base.table()))
            .chain(views)
            .chain(claims.map(|claims| Arc::clone(claims.table())))
            .collect()
    }

    /// Reads the base row of a record from the store, with the given consistency level.
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

fn key(id: i32) -> Cells {
    std::iter::once(Some(&id.to_be_bytes()[..])).collect()
}

/// Fields of a record outside its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) place: Place,
    pub(crate) log: String,
    /// Unique field: no two records have the same handle.
    pub(crate) handle: Option<u8>,
}

/// Fields that determine the position of a record in the views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) status: Option<u8>,
    pub(crate) at: Option<i32>,
    pub(crate) note: Option<u8>,
}

impl Place {
    /// Returns the position fields of the unchanged record with the given id.
    pub(crate) fn of_staying(id: i32) -> Self {
        Self {
            status: Some(u8::from(id % 2 == 0)),
            at: Some(id % 3),
            note: Some(0),
        }
    }

    fn of(cells: &Cells, [status, at, note]: [usize; 3]) -> Self {
        Self {
            status: letter(cells, status),
            at: cells
                .get(at)
                .map(|cell| i32::from_be_bytes(cell.try_into().unwrap())),
            note: letter(cells, note),
        }
    }
}

fn letter(cells: &Cells, field: usize) -> Option<u8> {
    cells.get(field).map(|cell| cell[0] - b'a')
}

fn text(which: Option<u8>) -> Option<String> {
    which.map(|which| char::from(b'a' + which).to_string())
}

impl Fields {
    /// Returns the fields of a record with the given position, an empty log and no handle.
    pub(crate) fn at(place: Place) -> Self {
        Self {
            place,
            log: String::new(),
            handle: None,
        }
    }

    pub(crate) fn of(record: &Cells) -> Self {
        Self {
            place: Place::of(record, [STATUS, AT, NOTE]),
            log: String::from_utf8(record.get(LOG).unwrap_or_default().to_vec()).unwrap(),
            handle: letter(record, HANDLE),
        }
    }

    fn record(&self, id: i32, definition: Arc<Collection>) -> recto::Result<DynamicRecord> {
        let Place { status, at, note } = self.place;
        let json = json!({
            "id": id, "status": text(status), "at": at, "log": self.log, "note": text(note), "handle": text(self.handle),
        });
        DynamicRecord::from_json(definition, json.as_object().unwrap())
    }
}

/// Kind of a change, with the new content of the record.
#[derive(Debug, Clone)]
pub(crate) enum ChangeEffect {
    Inserted(Fields),
    Put(Fields),
    /// Moves the record to another position in the views. Its other fields stay.
    Moved(Place),
    Deleted,
}

/// Change of one record that a client requests.
#[derive(Debug, Clone)]
pub(crate) struct RecordChange {
    pub(crate) id: i32,
    pub(crate) becomes: ChangeEffect,
    pub(crate) lives_for: Option<Duration>,
    pub(crate) if_version: Option<Version>,
}

impl RecordChange {
    pub(crate) fn new(id: i32, becomes: ChangeEffect) -> Self {
        Self {
            id,
            becomes,
            lives_for: None,
            if_version: None,
        }
    }

    /// Returns the position fields of the record after the change. `None` if the change deletes the
    /// record.
    pub(crate) fn place(&self) -> Option<Place> {
        match &self.becomes {
            ChangeEffect::Inserted(fields) | ChangeEffect::Put(fields) => Some(fields.place),
            ChangeEffect::Moved(place) => Some(*place),
            ChangeEffect::Deleted => None,
        }
    }

    /// Returns the handle (unique value) that the record has from this change until its next
    /// change. `None` if the handle is unknown, or if the record expires.
    pub(crate) fn handle(&self) -> Option<u8> {
        match &self.becomes {
            ChangeEffect::Inserted(fields) | ChangeEffect::Put(fields) if self.lives_for.is_none() => {
                fields.handle
            }
            _ => None,
        }
    }

    /// Executes the change through the public API.
    pub(crate) async fn ask(&self, recto: &Recto) -> recto::Result<Changed> {
        let records = recto.dynamic(COLLECTION)?;
        let record = |fields: &Fields| fields.record(self.id, records.definition());
        let mut change = match &self.becomes {
            ChangeEffect::Inserted(fields) => records.insert(&record(fields)?),
            ChangeEffect::Put(fields) => records.put(&record(fields)?),
            ChangeEffect::Moved(place) => {
                let update = records
                    .update(self.id)
                    .set("status", text(place.status).as_deref());
                let update = update.set("at", place.at);
                update.set("note", text(place.note).as_deref()).into()
            }
            ChangeEffect::Deleted => records.delete(self.id),
        };
        if let Some(time) = self.lives_for {
            change = change.lives_for(time);
        }
        if let Some(version) = self.if_version {
            change = change.if_version(version.0);
        }
        change.await
    }
}

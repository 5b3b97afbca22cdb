//! Collections of the tests of buckets on Cassandra nodes, with the lists that the tests read by
//! pages.

use std::sync::Arc;

use recto::schema::{Collection as Definition, Schema};
use recto::{Collection, DynamicRecord, PageQuery, Recto};
use recto_testkit::generate::Rng;
use serde_json::json;

/// Schema of three collections. Rows of `events` are overwritten and deleted. Rows of `log` are
/// only added, and its view has the opposite order. Records of `records` move within the view
/// `by_list`.
const SCHEMA: &str = r#"
[collection.events]
fields = { stream = "text", at = "bigint", number = "bigint", text = "text" }
key = ["stream", "at"]
partition = ["stream"]
order = ["-at"]
writes = "overwrite"
bucket = { target = "128KiB" }

[collection.log]
fields = { stream = "text", at = "bigint", number = "bigint", kind = "text", text = "text" }
key = ["stream", "at"]
partition = ["stream"]
order = ["at"]
writes = "append"
bucket = { target = "128KiB" }

[collection.log.view.by_kind]
partition = ["kind"]
order = ["-at"]
bucket = { target = "128KiB" }

[collection.records]
fields = { id = "int", list = "text", at = "bigint", text = "text" }
key = ["id"]

[collection.records.view.by_list]
partition = ["list"]
order = ["-at"]
"#;
/// Number of records in the collection `records`, which move within their view.
const RECORDS: i32 = 500;
const STREAM: &str = "s";

pub(crate) fn schema() -> Schema {
    Schema::parse(SCHEMA).unwrap()
}

/// Collection whose rows the child processes write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenCollection {
    Events,
    Log,
}

/// List of rows that the tests read by pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Events,
    Log,
    /// Partition of the view `by_kind` of the collection `log`. It has the rows whose keys are even
    /// (`false`) or odd (`true`).
    Kind(bool),
}

impl List {
    pub(crate) const ALL: [Self; 4] = [Self::Events, Self::Log, Self::Kind(false), Self::Kind(true)];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Log => "log",
            Self::Kind(false) => "even",
            Self::Kind(true) => "odd",
        }
    }

    pub(crate) fn of_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|list| list.name() == name).unwrap()
    }

    /// Returns whether the keys of the rows descend when the list is read forwards.
    pub(crate) fn falls(self) -> bool {
        self != Self::Log
    }

    /// Returns the name of the list's collection, the name of its view, and the filter that selects
    /// the list. An empty name of the view stands for the base table.
    pub(crate) fn place(self) -> (&'static str, &'static str, String) {
        match self {
            Self::Events => ("events", "", format!("stream = \"{STREAM}\"")),
            Self::Log => ("log", "", format!("stream = \"{STREAM}\"")),
            Self::Kind(_) => ("log", "by_kind", format!("kind = \"{}\"", self.name())),
        }
    }
}

/// Returns the lists that contain the row with the key `at` of a collection.
pub(crate) fn lists_of(of: WrittenCollection, at: i64) -> Vec<List> {
    match of {
        WrittenCollection::Events => vec![List::Events],
        WrittenCollection::Log => vec![List::Log, List::Kind(at % 2 != 0)],
    }
}

/// Open store with its three collections.
pub(crate) struct Lists {
    pub(crate) recto: Recto,
    collections: [(Collection<DynamicRecord>, Arc<Definition>); 3],
}

impl Lists {
    pub(crate) fn new(recto: Recto) -> Self {
        let schema = recto.schema();
        let collections = ["events", "log", "records"].map(|name| {
            let definition = Arc::clone(schema.collection(name).unwrap());
            (recto.dynamic(name).unwrap(), definition)
        });
        Self { recto, collections }
    }

    pub(crate) fn collection(&self, of: WrittenCollection) -> &Collection<DynamicRecord> {
        &self.collections[of as usize].0
    }

    pub(crate) fn row(&self, of: WrittenCollection, at: i64, number: u64, length: usize) -> DynamicRecord {
        let mut row = json!({
            "stream": STREAM, "at": at.to_string(), "number": number.to_string(), "text": "x".repeat(length),
        });
        if of == WrittenCollection::Log {
            row["kind"] = json!(List::Kind(at % 2 != 0).name());
        }
        let definition = Arc::clone(&self.collections[of as usize].1);
        DynamicRecord::from_json(definition, row.as_object().unwrap()).unwrap()
    }

    /// Moves a random record of the collection `records` to another position of its view, or
    /// deletes the record.
    pub(crate) async fn changes_record(&self, random: &mut Rng) -> recto::Result<()> {
        let (records, definition) = &self.collections[2];
        let id = random.i32(0..RECORDS);
        if random.u8(0..10) == 0 {
            return records.delete(id).await.map(drop);
        }
        let record = json!({
            "id": id, "list": "all", "at": random.i64(0..1 << 40).to_string(), "text": "x".repeat(random.usize(200..1_500)),
        });
        let record = DynamicRecord::from_json(Arc::clone(definition), record.as_object().unwrap())?;
        records.put(&record).await.map(drop)
    }

    pub(crate) fn query(&self, list: List) -> PageQuery<DynamicRecord> {
        let (_, _, filter) = list.place();
        let of = if list == List::Events {
            WrittenCollection::Events
        } else {
            WrittenCollection::Log
        };
        let order = if list.falls() { "at desc" } else { "at" };
        self.collection(of).query().filter(&filter).order_by(order)
    }
}

/// Returns the values of the key of a row of the collection `events`.
pub(crate) fn key_of(at: i64) -> [recto::Value; 2] {
    [recto::Value::Text(STREAM.to_owned()), recto::Value::BigInt(at)]
}

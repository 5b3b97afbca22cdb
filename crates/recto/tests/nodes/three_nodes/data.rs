//! Collections and records of the tests on three nodes, and the queries whose pages the tests read.

use std::cmp::Ordering;
use std::sync::Arc;

use recto::schema::{Collection as Definition, Schema};
use recto::{Collection, DynamicRecord, PageQuery, Recto, Value};

use super::history::{Key, State};

/// Schema of two collections with the same fields. The sort order of `mixed` has both directions,
/// and the sort order of the other collection has one direction.
pub(crate) const SCHEMA: &str = r#"
[collection.mixed]
fields = { tenant = "text", score = "int", id = "bigint", version = "bigint", note = "text" }
key = ["tenant", "score", "id"]
partition = ["tenant"]
order = ["-score", "id"]
writes = "overwrite"

[collection.plain]
fields = { tenant = "text", score = "int", id = "bigint", version = "bigint", note = "text" }
key = ["tenant", "score", "id"]
partition = ["tenant"]
order = ["score", "id"]
writes = "overwrite"
"#;

pub(crate) const COLLECTIONS: [&str; 2] = ["mixed", "plain"];
pub(crate) const MIXED: usize = 0;
pub(crate) const PLAIN: usize = 1;
pub(crate) const TENANTS: usize = 4;
/// Number of slots of each tenant in each collection. A slot is the id of a record, which may or
/// may not exist.
pub(crate) const SLOTS: i64 = 60;
/// Number of distinct values of the field `score`, the first column of the sort orders.
const SCORES: i64 = 9;

pub(crate) fn score(slot: i64) -> i64 {
    slot * 5 % SCORES
}

fn note(key: Key, version: i64) -> String {
    format!("{}/{}/{}#{version}", key.collection, key.tenant, key.slot)
}

/// Open store with its two collections.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) recto: Recto,
    pub(crate) collections: [Collection<DynamicRecord>; 2],
    definitions: [Arc<Definition>; 2],
}

impl Tables {
    pub(crate) fn new(recto: &Recto) -> Self {
        let schema: Arc<Schema> = recto.schema();
        Self {
            recto: recto.clone(),
            collections: COLLECTIONS.map(|name| recto.dynamic(name).unwrap()),
            definitions: COLLECTIONS.map(|name| Arc::clone(schema.collection(name).unwrap())),
        }
    }

    pub(crate) fn record(&self, key: Key, version: i64) -> DynamicRecord {
        let mut record = DynamicRecord::new(Arc::clone(&self.definitions[key.collection]));
        let values = [key_values(key).as_slice(), &[Value::BigInt(version)]].concat();
        let names = ["tenant", "score", "id", "version"];
        for (name, value) in names.into_iter().zip(values) {
            record.set(name, Some(value)).unwrap();
        }
        record.set("note", Some(Value::Text(note(key, version)))).unwrap();
        record
    }
}

/// Returns the values of a record's key.
pub(crate) fn key_values(key: Key) -> [Value; 3] {
    [
        Value::Text(format!("t{}", key.tenant)),
        Value::Int(i32::try_from(score(key.slot)).unwrap()),
        Value::BigInt(key.slot),
    ]
}

/// Returns the key and the version of a record. Returns an error if no writer can have written this
/// record.
pub(crate) fn read_record(collection: usize, record: &DynamicRecord) -> Result<(Key, i64), String> {
    let values = (
        record.get("tenant"),
        record.get("score"),
        record.get("id"),
        record.get("version"),
        record.get("note"),
    );
    let (
        Some(Value::Text(tenant)),
        Some(Value::Int(found)),
        Some(Value::BigInt(slot)),
        Some(Value::BigInt(version)),
        Some(Value::Text(text)),
    ) = values
    else {
        return Err(format!("a torn row: {record:?}"));
    };
    let key = Key {
        collection,
        tenant: tenant.trim_start_matches('t').parse().unwrap(),
        slot: *slot,
    };
    if i64::from(*found) != score(*slot) || *text != note(key, *version) {
        return Err(format!("a row of two writes: {record:?}"));
    }
    Ok((key, *version))
}

/// Query, with a description of the records that it must return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) collection: usize,
    filter: &'static str,
    order_by: &'static str,
    tenants: &'static [usize],
    /// Range of the scores that the filter selects: start, and exclusive end.
    scores: (i64, i64),
    /// True if the score descends, and true if the id descends. Records with the same score and id
    /// are sorted by tenant.
    descending: (bool, bool),
}

const ALL_SCORES: (i64, i64) = (0, SCORES);
const THREE: &str = r#"tenant = "t0" OR tenant = "t1" OR tenant = "t3""#;

/// Queries of the tests: one range of rows, one range in reverse order, mixed directions, several
/// ranges, and merges of partitions.
pub(crate) const SHAPES: [Shape; 7] = [
    Shape {
        name: "single slice",
        collection: PLAIN,
        filter: r#"tenant = "t0""#,
        order_by: "",
        tenants: &[0],
        scores: ALL_SCORES,
        descending: (false, false),
    },
    Shape {
        name: "single slice, reversed",
        collection: PLAIN,
        filter: r#"tenant = "t1""#,
        order_by: "score desc, id desc",
        tenants: &[1],
        scores: ALL_SCORES,
        descending: (true, true),
    },
    Shape {
        name: "mixed directions",
        collection: MIXED,
        filter: r#"tenant = "t2""#,
        order_by: "",
        tenants: &[2],
        scores: ALL_SCORES,
        descending: (true, false),
    },
    Shape {
        name: "mixed directions, range, reversed",
        collection: MIXED,
        filter: r#"tenant = "t1" AND score >= 2 AND score < 7"#,
        order_by: "score, id desc",
        tenants: &[1],
        scores: (2, 7),
        descending: (false, true),
    },
    Shape {
        name: "IN merge",
        collection: PLAIN,
        filter: THREE,
        order_by: "score, id",
        tenants: &[0, 1, 3],
        scores: ALL_SCORES,
        descending: (false, false),
    },
    Shape {
        name: "IN merge, mixed directions",
        collection: MIXED,
        filter: THREE,
        order_by: "score desc, id",
        tenants: &[0, 1, 3],
        scores: ALL_SCORES,
        descending: (true, false),
    },
    Shape {
        name: "IN merge, range",
        collection: MIXED,
        filter: r#"(tenant = "t2" OR tenant = "t3") AND score <= 4"#,
        order_by: "score desc, id",
        tenants: &[2, 3],
        scores: (0, 5),
        descending: (true, false),
    },
];

impl Shape {
    pub(crate) fn query(&self, tables: &Tables) -> PageQuery<DynamicRecord> {
        tables.collections[self.collection]
            .query()
            .filter(self.filter)
            .order_by(self.order_by)
    }

    /// Returns whether the query must return a record with this key, if the record exists.
    pub(crate) fn has(&self, key: Key) -> bool {
        key.collection == self.collection
            && self.tenants.contains(&key.tenant)
            && (self.scores.0..self.scores.1).contains(&score(key.slot))
    }

    /// Compares two keys in the sort order of the query.
    pub(crate) fn compare(&self, left: Key, right: Key) -> Ordering {
        let turned = |order: Ordering, descending| if descending { order.reverse() } else { order };
        turned(score(left.slot).cmp(&score(right.slot)), self.descending.0)
            .then(turned(left.slot.cmp(&right.slot), self.descending.1))
            .then(left.tenant.cmp(&right.tenant))
    }
}

/// Returns whether a read may find the state `found` of a key. `states` are the allowed states.
/// `None`: the key was never written.
pub(crate) fn may_be(states: Option<&Vec<State>>, found: State) -> bool {
    match states {
        None => found.is_none(),
        Some(states) => states.contains(&found),
    }
}

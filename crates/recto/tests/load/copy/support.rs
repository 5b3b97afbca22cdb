//! Schema and records of a store to copy, and assertions about the copy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use recto::session::{CopyReport, CopyRequest, VerifyRequest};
use recto::store::{ReadOptions, TokenRange};
use recto::{Collection, DynamicRecord, Recto, Result};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::common::exact::assert_views_are_exact;
use crate::common::stores::parse;
use crate::common::{Fresh, Kind};

/// Schema with collections of every write mode, with views and buckets.
const SCHEMA: &str = r#"
[collection.orders]
fields = { id = "int", status = "text", due = "timestamp", total = "decimal", customer = "text", note = "text", tags = "list<text>" }
key = ["id"]

[collection.orders.view.by_status]
partition = ["status"]
order = ["-due"]
nulls = "last"

[collection.orders.view.by_total]
partition = ["status"]
order = ["total"]
nulls = "skip"
fields = ["note"]

[collection.orders.view.by_customer]
partition = ["status"]
order = ["customer"]
collate = "de"

[collection.orders.view.all]
partition = []
order = ["id"]
bucket = { target = "64KiB" }

[collection.events]
fields = { day = "int", id = "int", what = "text", note = "text" }
key = ["day", "id"]
partition = ["day"]
order = ["-id"]
writes = "append"
bucket = { target = "64KiB" }

[collection.events.view.by_what]
partition = ["what"]
order = ["-id"]

[collection.settings]
fields = { name = "text", value = "text" }
key = ["name"]
writes = "overwrite"
"#;

/// Names of customers in German order, which differs from the order of their bytes.
pub(crate) const CUSTOMERS: [&str; 7] = ["Aal", "äpfel", "Ärger", "Otto", "Ötzi", "Oz", "Zorn"];
pub(crate) const ORDERS: i32 = 1_300;
pub(crate) const EVENTS: i32 = 3_000;
/// Lifetimes of records. `LIFE` exceeds the duration of the test. `SHORT_LIFE` is so short that the
/// records expire before the copy.
const LIFE: Duration = Duration::from_secs(40 * 24 * 3_600);
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// Maximum number of concurrent puts.
const PUTS: usize = 64;

pub(crate) async fn apply(recto: &Recto) {
    recto.apply(&parse(SCHEMA)).await.unwrap();
}

fn record(collection: &Collection<DynamicRecord>, json: &Json) -> DynamicRecord {
    DynamicRecord::from_json_text(collection.definition(), &json.to_string()).unwrap()
}

pub(crate) fn order(recto: &Recto, id: i32, status: &str) -> DynamicRecord {
    let due = (id % 5 > 0).then(|| format!("2026-01-{:02}T10:00:00Z", id % 28 + 1));
    let total = (id % 3 > 0).then(|| format!("{}.5", id % 97));
    let note = (id % 7 > 0).then(|| "n".repeat(id.unsigned_abs() as usize % 200));
    let tags = (id % 11 == 0).then(|| json!(["a", "b"]));
    let customer = (id % 13 > 0).then(|| CUSTOMERS[id.unsigned_abs() as usize % CUSTOMERS.len()]);
    let json = json!({
        "id": id, "status": status, "due": due, "total": total, "customer": customer, "note": note, "tags": tags,
    });
    record(&recto.dynamic("orders").unwrap(), &json)
}

fn event(recto: &Recto, number: i32) -> DynamicRecord {
    let what = (number % 6 > 0).then(|| format!("w{}", number % 4));
    let note = (number % 6 > 0).then(|| "e".repeat(150));
    let json = json!({ "day": number % 3, "id": number, "what": what, "note": note });
    record(&recto.dynamic("events").unwrap(), &json)
}

/// Returns a store with records in all collections. All tests share one such store on Cassandra,
/// and no test changes it.
pub(crate) async fn filled(kind: Kind) -> (Fresh, Recto) {
    static ON_CASSANDRA: OnceCell<(Fresh, Recto)> = OnceCell::const_new();
    let make = async || {
        let fresh = Fresh::new(kind);
        let recto = fresh.open().await;
        apply(&recto).await;
        fill(&recto).await;
        (fresh, recto)
    };
    match kind {
        Kind::Embedded => make().await,
        Kind::Cassandra => ON_CASSANDRA.get_or_init(make).await.clone(),
    }
}

/// Returns an embedded store with records in all collections, and an empty store of the given kind.
pub(crate) async fn filled_and_empty(kind: Kind) -> (Recto, Recto) {
    let (_, source) = filled(Kind::Embedded).await;
    (source, Fresh::new(kind).open().await)
}

/// Stores records of all kinds: updated and moved records, deleted records, records with nulls, and
/// records with lifetimes, some of which have expired.
pub(crate) async fn fill(recto: &Recto) {
    let orders = recto.dynamic("orders").unwrap();
    let put = |id: i32, status: &'static str, life: Option<Duration>| {
        let put = orders.put(&order(recto, id, status));
        match life {
            Some(life) => put.lives_for(life),
            None => put,
        }
    };
    let life = |id: i32| match id % 50 {
        1 => Some(LIFE),
        2 => Some(SHORT_LIFE),
        _ => None,
    };
    all((0..ORDERS).map(|id| put(id, "new", life(id)))).await;
    all((0..ORDERS).step_by(4).map(|id| put(id, "paid", life(id)))).await;
    let events = recto.dynamic("events").unwrap();
    all((0..EVENTS).map(|number| {
        let put = events.put(&event(recto, number));
        if number % 100 == 1 {
            put.lives_for(LIFE)
        } else {
            put
        }
    }))
    .await;
    let settings = recto.dynamic("settings").unwrap();
    all((0..40).map(|number| {
        let value = (number % 3 > 0).then(|| format!("v{number}"));
        settings.put(&record(
            &settings,
            &json!({ "name": format!("s{number}"), "value": value }),
        ))
    }))
    .await;
    for id in (0..ORDERS).step_by(17) {
        recto.dynamic("orders").unwrap().delete(id).await.unwrap();
    }
    tokio::time::sleep(2 * SHORT_LIFE).await;
}

async fn all(changes: impl Iterator<Item = recto::Change>) {
    let made: Vec<_> = changes.collect();
    let mut made = stream::iter(made.into_iter().map(|change| async { change.await })).buffer_unordered(PUTS);
    while let Some(made) = made.next().await {
        made.unwrap();
    }
}

pub(crate) async fn copy(source: &Recto, target: &Recto) -> Result<CopyReport> {
    source.copy_to(target, &CopyRequest::default(), &|_| {}).await
}

/// Returns all records of a collection as text, sorted.
async fn records(recto: &Recto, collection: &str) -> Vec<String> {
    use futures::TryStreamExt;
    let records = recto.dynamic(collection).unwrap();
    let parts: Vec<_> = records.scan().parts().try_collect().await.unwrap();
    let records = parts.into_iter().flat_map(|part| part.items);
    let mut records: Vec<String> = records
        .map(|one| Json::Object(one.to_json()).to_string())
        .collect();
    records.sort();
    records
}

/// Returns, for each row of a collection's table, its write timestamp, and its remaining lifetime
/// in seconds if it expires. The bytes of the row's key identify the row.
async fn written(recto: &Recto, collection: &str) -> BTreeMap<Vec<u8>, (i64, Option<u32>)> {
    let table = Arc::new(recto.dynamic(collection).unwrap().definition().base_table());
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let (snapshot, mut after, mut rows) = (recto.store().snapshot().unwrap(), None, BTreeMap::new());
    loop {
        let range = TokenRange::whole();
        let read = snapshot
            .scan(&table, &range, after.as_ref(), 500, &options)
            .await
            .unwrap();
        for (index, row) in read.rows.iter().enumerate() {
            let has_values = (table.key_len()..table.columns().len()).any(|column| row.get(column).is_some());
            let key: Vec<u8> = (0..table.key_len())
                .flat_map(|column| row.get(column).unwrap().to_vec())
                .collect();
            // A store need not report the timestamp of a row that consists of its key alone, so
            // ignore it.
            let told = (read.stamps[index], read.ends_in_seconds[index]);
            rows.insert(key, if has_values { told } else { (0, None) });
        }
        match read.next {
            Some(next) => after = Some(next),
            None => return rows,
        }
    }
}

/// Asserts that the target has the same records, versions, lifetimes and views as the source.
pub(crate) async fn assert_is_copy(source: &Recto, target: &Recto) {
    for collection in ["orders", "events", "settings"] {
        let (here, there) = (
            records(source, collection).await,
            records(target, collection).await,
        );
        assert_eq!(here.len(), there.len(), "{collection}");
        assert_eq!(here, there, "{collection}");
        assert_views_are_exact(target, collection).await;
    }
    let (from, to) = (
        source.dynamic("orders").unwrap(),
        target.dynamic("orders").unwrap(),
    );
    for id in (0..ORDERS).step_by(7) {
        let (here, there) = (
            from.get_versioned(id).await.unwrap(),
            to.get_versioned(id).await.unwrap(),
        );
        let version = |found: &Option<recto::Versioned<DynamicRecord>>| found.as_ref().map(|one| one.version);
        assert_eq!(version(&here), version(&there), "order {id}");
    }
    for collection in ["events", "settings"] {
        let (here, there) = (
            written(source, collection).await,
            written(target, collection).await,
        );
        for (key, (stamp, ends)) in &here {
            let (copied, copy_ends) = there[key];
            assert_eq!(
                (*stamp, ends.is_some()),
                (copied, copy_ends.is_some()),
                "{collection} {key:?}"
            );
            let apart = ends.unwrap_or(0).abs_diff(copy_ends.unwrap_or(0));
            assert!(apart < 300, "{ends:?} and {copy_ends:?}");
        }
    }
    let report = target.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    let wrong: u64 = report.views.iter().map(recto::session::VerifiedView::left).sum();
    assert_eq!(wrong, 0, "{report:?}");
}

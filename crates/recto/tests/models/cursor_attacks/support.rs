//! Rows that the cursors of the tests refer to, and assertions about rejected cursors.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use recto::schema::Collection;
use recto::{DynamicRecord, Environment, ErrorKind, OpenOptions, Page, PageQuery, Recto};
use recto_model::environment::Source;
use recto_plan::cursor::CursorError;
use recto_testkit::oracle::Oracle;
use serde_json::json;
use tokio::sync::Mutex;

pub(crate) use crate::common::stores::kind_of as kind;
use crate::common::stores::parse;
use crate::common::subject::VIEWS;
use crate::common::{Fresh, Kind, Subject};

pub(crate) const SCHEMA: &str = r#"
[collection.events]
fields = { stream = "text", at = "int", id = "int", note = "text" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "append"

[collection.twins]
fields = { stream = "text", at = "int", id = "int", note = "text" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "append"
"#;

/// Time at which the tests begin, in seconds since 1970: 2026-01-01T00:00:00Z.
pub(crate) const BEGIN_SECONDS: i64 = 1_767_225_600;

/// Stores the events `0..count` in the partition `stream`, and returns the query for them, newest
/// first.
pub(crate) async fn events(recto: &Recto, stream: &str, count: i32) -> PageQuery<DynamicRecord> {
    rows_of(recto, "events", stream, count).await
}

/// Stores rows as [`events`] does, in the collection `collection`, and returns the query for them.
pub(crate) async fn rows_of(
    recto: &Recto,
    collection: &str,
    stream: &str,
    count: i32,
) -> PageQuery<DynamicRecord> {
    let mut subject = subject(recto, collection);
    let row = |at: i32| json!({ "stream": stream, "at": at, "id": 0, "note": format!("note {at}") });
    subject.put((0..count).map(row)).await;
    subject.text(&format!("stream = \"{stream}\""), "")
}

/// Returns the subject (tested collection) for a collection of [`SCHEMA`], or for the view that the
/// store has in its place.
pub(crate) fn subject(recto: &Recto, collection: &str) -> Subject {
    let schema = recto.schema();
    let stored = schema.collection(collection).unwrap();
    let has = |view: &&str| stored.views.iter().any(|one| one.name == *view);
    match VIEWS.into_iter().find(has) {
        None => Subject::new(recto, collection),
        Some(view) => Subject::of_view(recto, oracle(parse(SCHEMA).collection(collection).unwrap()), view),
    }
}

fn oracle(collection: &Arc<Collection>) -> Oracle {
    Oracle::new(Arc::clone(collection))
}

/// Returns a store that has, for each collection of [`SCHEMA`], a view with the same sort order.
/// Tests share one store for each kind of store and view, because creating tables takes long.
pub(crate) async fn viewed(kind: Kind, view: &'static str) -> Recto {
    static STORES: Mutex<Vec<(Kind, &str, Recto)>> = Mutex::const_new(Vec::new());
    let mut stores = STORES.lock().await;
    let made = stores.iter().find(|one| (one.0, one.1) == (kind, view));
    if let Some((.., recto)) = made {
        return recto.clone();
    }
    let recto = Fresh::new(kind).open().await;
    let schema = parse(SCHEMA);
    let declared = schema.collections.iter();
    let declared: String = declared
        .map(|one| Subject::declared(&oracle(one), view, kind))
        .collect();
    recto.apply(&parse(&declared)).await.unwrap();
    stores.push((kind, view, recto.clone()));
    recto
}

/// Returns the values of `at` in a page's events.
pub(crate) fn times(page: &Page<DynamicRecord>) -> Vec<i64> {
    let records = page.items().iter();
    records
        .map(|record| record.to_json()["at"].as_i64().unwrap())
        .collect()
}

/// Requests the pages after, before and around `text` as a cursor, and the page with `text` as page
/// token. Asserts that each request is rejected as an invalid cursor with a hint. Returns the
/// reason.
pub(crate) async fn refused(query: &PageQuery<DynamicRecord>, text: &str) -> CursorError {
    let mut reasons = Vec::new();
    for asked in [
        query.clone().first(3).after(text),
        query.clone().last(3).before(text),
        query.clone().page_size(3).around(text),
        query.clone().page_size(3).page_token(text),
    ] {
        let error = asked
            .await
            .expect_err("a page of a cursor that is not the query's");
        assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{error}");
        assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{error}");
        let reason = error.source().unwrap().downcast_ref::<CursorError>().unwrap();
        reasons.push(reason.clone());
        // The text is never empty, because an empty page token means the first page.
    }
    assert!(reasons.windows(2).all(|pair| pair[0] == pair[1]), "{reasons:?}");
    reasons.swap_remove(0)
}

/// Returns a new store of a kind, with `schema`.
pub(crate) async fn fresh(kind: Kind, schema: &str, options: OpenOptions) -> Recto {
    let recto = Fresh::new(kind).open_with(options).await;
    recto.apply(&parse(schema)).await.unwrap();
    recto
}

/// Returns the other kind of store.
pub(crate) fn other(kind: Kind) -> Kind {
    match kind {
        Kind::Embedded => Kind::Cassandra,
        Kind::Cassandra => Kind::Embedded,
    }
}

/// Returns a second handle of the same store, as another process would open it. The handle has its
/// own copy of the cursor keys.
pub(crate) async fn second_handle(recto: &Recto, options: OpenOptions) -> Recto {
    Recto::with_store(Arc::clone(recto.store()), options)
        .await
        .unwrap()
}

/// Source of time that shows the time that a test sets, and counts its readings.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    now_micros: Arc<AtomicI64>,
    pub(crate) readings: Arc<AtomicU64>,
    draws: Arc<AtomicU64>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            now_micros: Arc::new(AtomicI64::new(BEGIN_SECONDS * 1_000_000)),
            readings: Arc::default(),
            draws: Arc::default(),
        }
    }

    pub(crate) fn pass_seconds(&self, seconds: i64) {
        self.now_micros.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment::new(self.clone())
    }
}

impl Source for Clock {
    fn now_micros(&self) -> i64 {
        self.readings.fetch_add(1, Ordering::Relaxed);
        self.now_micros.load(Ordering::Relaxed)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.now_micros
            .load(Ordering::Relaxed)
            .cast_unsigned()
            .wrapping_mul(1_000)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = draw[index % draw.len()]
                .wrapping_mul(31)
                .wrapping_add(index as u8);
        }
    }
}

//! Edge cases of pages, cursors, budgets and handles, on a store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use recto::filter::{Operator, field, tuple};
use recto::schema::Schema;
use recto::session::{PageRequest, Pages, ScanRequest};
use recto::{
    Collection, Direction, DynamicRecord, Environment, ErrorKind, LocalSession, OpenOptions, Page, PageQuery,
    Record, Recto, Stop,
};
use recto_model::environment::Source;
use recto_store::Store;
use recto_store::faults::{FaultRates, FaultyStore};
use recto_store::memory::MemoryStore;
use serde_json::json;

const SCHEMA: &str = r#"
[collection.events]
fields = { stream = "text", at = "int", id = "int", note = "text" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["at", "id"]
writes = "append"

[collection.pairs]
fields = { left = "int", right = "int", note = "text", more = "text" }
key = ["left", "right"]
writes = "overwrite"
"#;

fn schema() -> Schema {
    Schema::parse(SCHEMA).unwrap()
}

async fn open_with(options: OpenOptions) -> Recto {
    let store = Arc::new(MemoryStore::new(Environment::system()));
    let recto = Recto::with_store(store, options).await.unwrap();
    recto.apply(&schema()).await.unwrap();
    recto
}

async fn open() -> Recto {
    open_with(OpenOptions::new()).await
}

fn record(collection: &Collection<DynamicRecord>, json: &serde_json::Value) -> DynamicRecord {
    let definition = collection.definition();
    DynamicRecord::from_json(definition, json.as_object().unwrap()).unwrap()
}

/// Stores `count` events in the stream `a`. Returns the collection, and the query for these events.
async fn events(recto: &Recto, count: i32) -> (Collection<DynamicRecord>, PageQuery<DynamicRecord>) {
    let events = recto.dynamic("events").unwrap();
    for at in 0..count {
        let note = if at % 10 == 9 { "tenth" } else { "other" };
        let event = record(
            &events,
            &json!({ "stream": "a", "at": at, "id": 0, "note": note }),
        );
        events.put(&event).await.unwrap();
    }
    let query = events.query().filter(r#"stream = "a""#);
    (events, query)
}

fn times(page: &Page<DynamicRecord>) -> Vec<i64> {
    page.items()
        .iter()
        .map(|record| record.to_json()["at"].as_i64().unwrap())
        .collect()
}

/// Clock for tests that advances by a fixed step at each reading.
struct Stepping {
    step_nanos: u64,
    nanos: AtomicU64,
}

impl Source for Stepping {
    fn now_micros(&self) -> i64 {
        i64::try_from(self.monotonic_nanos() / 1_000).unwrap()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.nanos.fetch_add(self.step_nanos, Ordering::Relaxed)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn stepping(step_nanos: u64) -> Environment {
    Environment::new(Stepping {
        step_nanos,
        nanos: AtomicU64::new(0),
    })
}

/// Checks a handle that was opened before the store had a schema, and therefore created its own
/// cursor keys. When it applies a schema, it must replace its keys by the store's keys.
#[tokio::test]
async fn a_refused_schema_takes_over_the_cursor_keys_of_the_store() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Environment::system()));
    let open = || Recto::with_store(Arc::clone(&store), OpenOptions::new());
    let (late, first) = (open().await.unwrap(), open().await.unwrap());
    first.apply(&schema()).await.unwrap();
    let other = SCHEMA.replace("at = \"int\"", "at = \"bigint\"");
    let refused = late.apply(&Schema::parse(&other).unwrap()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SchemaMismatch);
    let (_, query) = events(&first, 3).await;
    let page = query.clone().first(1).await.unwrap();
    let cursor = page.next_cursor().unwrap();
    let query = late.dynamic("events").unwrap().query().filter(r#"stream = "a""#);
    assert_eq!(query.first(2).after(cursor).await.unwrap().len(), 2);
}

#[tokio::test]
async fn pages_back_from_an_empty_page_to_the_last_row() {
    let (_, query) = events(&open().await, 5).await;
    let last = query.clone().last(1).await.unwrap().cursor(0);
    let beyond = query.clone().first(2).after(last).await.unwrap();
    assert_eq!((beyond.len(), beyond.has_previous()), (0, None));
    let back = query
        .last(2)
        .before(beyond.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&back), [3, 4]);
}

#[tokio::test]
async fn pages_forward_from_an_empty_page_to_the_first_row() {
    let (_, query) = events(&open().await, 5).await;
    let first = query.clone().first(1).await.unwrap().cursor(0);
    let beyond = query.clone().last(2).before(first).await.unwrap();
    assert_eq!((beyond.len(), beyond.has_next()), (0, None));
    let on = query.first(2).after(beyond.next_cursor().unwrap()).await.unwrap();
    assert_eq!(times(&on), [0, 1]);
}

#[tokio::test]
async fn returns_a_timed_out_page_without_both_edges() {
    let environment = stepping(1_000_000);
    let (_, query) = events(&open_with(OpenOptions::new().environment(environment)).await, 600).await;
    let query = query
        .matching(field("note").equal_to("absent"))
        .allow_filter_scan();
    let token = query.clone().scan_budget(1).await.unwrap().next_cursor().unwrap();
    let timed = query
        .page_token(token)
        .timeout(Duration::from_millis(2))
        .both_edges();
    let page = timed.await.unwrap();
    assert_eq!(
        (page.stop(), page.has_next(), page.has_previous()),
        (Some(Stop::Time), None, None)
    );
}

#[tokio::test]
async fn returns_a_page_around_a_row_if_one_side_times_out() {
    let environment = stepping(1_000_000);
    let (_, query) = events(&open_with(OpenOptions::new().environment(environment)).await, 600).await;
    let query = query
        .matching(field("note").equal_to("tenth"))
        .allow_filter_scan();
    let cursor = query.clone().page_size(1).await.unwrap().cursor(0);
    let page = query
        .page_size(200)
        .around(cursor)
        .timeout(Duration::from_millis(2))
        .await
        .unwrap();
    assert_eq!(times(&page)[0], 9);
    assert_eq!((page.stop(), page.has_previous()), (Some(Stop::Time), None));
}

#[tokio::test]
async fn a_stream_outlives_the_cursors_that_pages_give() {
    let environment = stepping(1_000_000_000);
    let options = OpenOptions::new()
        .environment(environment)
        .cursor_lifetime(Duration::from_secs(1));
    let (_, query) = events(&open_with(options).await, 6).await;
    let query = query.page_size(2).timeout(Duration::from_secs(100));
    let rows: Vec<_> = query.stream().collect().await;
    assert_eq!(rows.into_iter().flatten().count(), 6);
}

#[tokio::test]
async fn shares_cursors_between_clones_made_before_a_schema() {
    let store = Arc::new(MemoryStore::new(Environment::system()));
    let recto = Recto::with_store(store, OpenOptions::new()).await.unwrap();
    let clone = recto.clone();
    recto.apply(&schema()).await.unwrap();
    let (_, query) = events(&recto, 3).await;
    let token = query.first(1).await.unwrap().next_cursor().unwrap();
    let of_clone = clone.dynamic("events").unwrap().query().filter(r#"stream = "a""#);
    assert_eq!(times(&of_clone.after(token).await.unwrap()), [1, 2]);
}

#[tokio::test]
async fn a_schema_can_be_applied_after_another_process_applied_one() {
    let store = Arc::new(MemoryStore::new(Environment::system()));
    let here = Recto::with_store(store.clone(), OpenOptions::new())
        .await
        .unwrap();
    here.apply(&schema()).await.unwrap();
    let there = Recto::with_store(store, OpenOptions::new()).await.unwrap();
    let collection = |name: &str| {
        format!("[collection.{name}]\nfields = {{ id = \"int\" }}\nkey = [\"id\"]\nwrites = \"append\"\n")
    };
    let second = format!("{SCHEMA}\n{}", collection("second"));
    there.apply(&Schema::parse(&second).unwrap()).await.unwrap();
    let third = format!("{second}\n{}", collection("third"));
    let applied = here.apply(&Schema::parse(&third).unwrap()).await.unwrap();
    assert_eq!(applied.generation, 3);
}

#[tokio::test]
async fn reports_query_errors_as_invalid_query() {
    let recto = open().await;
    let (_, query) = events(&recto, 1).await;
    let error = query
        .clone()
        .then_by("nope", Direction::Ascending)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuery);
    let request = PageRequest {
        fields: vec!["nope".into()],
        ..PageRequest::default()
    };
    let error = LocalSession::new(recto)
        .page("events", &request)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuery);
    let error = query.after("a").before("b").around("c").await.unwrap_err();
    assert_eq!(error.message(), "after and before exclude one another");
}

#[tokio::test]
async fn order_values_larger_than_any_key_are_refused() {
    let events = open().await.dynamic("events").unwrap();
    let query = events
        .query()
        .filter(r#"stream = "a" OR stream = "b""#)
        .order_by("stream");
    let error = query.from(["z".repeat(300_000)]).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::InvalidQuery, Some("stream"))
    );
}

#[tokio::test]
async fn a_record_of_another_collection_is_refused() {
    let recto = open().await;
    let (events, pairs) = (recto.dynamic("events").unwrap(), recto.dynamic("pairs").unwrap());
    let pair = record(&pairs, &json!({ "left": 1, "right": 2 }));
    let error = events.put(&pair).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRecord);
    assert!(error.to_string().contains("pairs"), "{error}");
}

#[tokio::test]
async fn a_scan_takes_no_more_ranges_from_a_token_than_it_gives() {
    use base64::Engine as _;
    let session = LocalSession::new(open().await);
    let mut bytes = vec![1];
    bytes.extend_from_slice(&6_u32.to_be_bytes());
    bytes.extend_from_slice(b"events");
    bytes.extend_from_slice(&[0; 9].repeat(50_000));
    let check = blake3::hash(&bytes);
    bytes.extend_from_slice(&check.as_bytes()[..8]);
    let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    let request = ScanRequest {
        resume_token: Some(token),
        ..ScanRequest::default()
    };
    let first = session.scan("events", &request).next().await.unwrap();
    assert_eq!(
        first.map_or_else(|error| Some(error.kind()), |_| None),
        Some(ErrorKind::InvalidCursor)
    );
}

#[tokio::test]
async fn too_many_sources_are_a_limit_and_not_a_missing_view() {
    let pairs = open().await.dynamic("pairs").unwrap();
    let list = |name: &str| field(name).any_of(0..12);
    let error = pairs
        .query()
        .matching(list("left"))
        .matching(list("right"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("128"), "{error}");
    assert!(
        !error.hint().unwrap().contains("[collection"),
        "{:?}",
        error.hint()
    );
}

/// Checks the hint for a query that another collection of the same records serves. The hint must
/// name that collection instead of a new view, except in a session with a row filter.
#[tokio::test]
async fn the_collection_that_serves_is_named() {
    let recto = open().await;
    let by_note = SCHEMA[..SCHEMA.find("[collection.pairs]").unwrap()]
        .replace("events", "events_by_note")
        .replace(r#"partition = ["stream"]"#, r#"partition = ["note"]"#)
        .replace(r#"key = ["stream","#, r#"key = ["note", "stream","#);
    recto.apply(&Schema::parse(&by_note).unwrap()).await.unwrap();
    let asked = PageRequest {
        filter: r#"note = "x""#.into(),
        ..PageRequest::default()
    };
    let session = LocalSession::new(recto);
    let error = session.page("events", &asked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlan);
    assert_eq!(
        error.hint(),
        Some("collection events_by_note serves it: ask that")
    );
    let some = session.restricted([("events".to_owned(), r#"stream = "a""#.to_owned())].into());
    let error = some.page("events", &asked).await.unwrap_err();
    assert!(
        !error.hint().unwrap_or_default().contains("events_by_note"),
        "{error}"
    );
}

#[tokio::test]
async fn hints_that_a_proposed_view_needs_a_filter_scan() {
    let events = open().await.dynamic("events").unwrap();
    for (filter, sort) in [
        (r#"stream = "a" AND note > "x""#, "id"),
        (r#"stream = "a" AND note > "x" AND id > 3"#, ""),
        (r#"stream = "a" AND (note, id) > ("x", 3)"#, "at"),
    ] {
        let error = events.query().filter(filter).order_by(sort).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoPlan, "{filter} / {sort}");
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("allow_filter_scan") && hint.contains("[collection"),
            "{filter} / {sort}: {hint}"
        );
    }
    let error = events
        .query()
        .filter(r#"stream = "a" AND note > "x""#)
        .await
        .unwrap_err();
    assert!(
        !error.hint().unwrap().contains("allow_filter_scan"),
        "{:?}",
        error.hint()
    );
}

#[tokio::test]
async fn an_empty_key_is_of_no_record() {
    let recto = open_schema(
        "[collection.names]\nfields = { name = \"text\" }\nkey = [\"name\"]\nwrites = \"overwrite\"\n",
    )
    .await;
    let names = recto.dynamic("names").unwrap();
    assert!(names.get((String::new(),)).await.unwrap().is_none());
}

async fn open_schema(text: &str) -> Recto {
    let store = Arc::new(MemoryStore::new(Environment::system()));
    let recto = Recto::with_store(store, OpenOptions::new()).await.unwrap();
    recto.apply(&Schema::parse(text).unwrap()).await.unwrap();
    recto
}

/// Checks that the error for a list without a filter names the partition field of a view. It must
/// not name the key, which selects a single record.
#[tokio::test]
async fn names_the_partition_field_of_a_list() {
    let recto = open_schema(
        r#"
        [collection.orders]
        fields = { id = "text", status = "text", at = "int" }
        key = ["id"]
        writes = "update"

        [collection.orders.view.by_status]
        partition = ["status"]
        order = ["-at"]
        "#,
    )
    .await;
    let error = recto.dynamic("orders").unwrap().query().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlan);
    assert_eq!(error.missing_partition_fields(), ["status"]);
}

#[tokio::test]
async fn floats_without_a_number_are_literals() {
    let recto = open_schema(
        "[collection.levels]\nfields = { site = \"int\", level = \"double\" }\nkey = [\"site\", \"level\"]\n\
         partition = [\"site\"]\nwrites = \"overwrite\"\n",
    )
    .await;
    let levels = recto.dynamic("levels").unwrap();
    for level in [json!(1.5), json!("Infinity"), json!("NaN")] {
        levels
            .put(&record(&levels, &json!({ "site": 1, "level": level })))
            .await
            .unwrap();
    }
    let query = levels.query().filter("site = 1");
    let page = query
        .clone()
        .matching(field("level").at_least(f64::INFINITY))
        .await
        .unwrap();
    assert_eq!(page.len(), 2);
    assert_eq!(
        query
            .matching(field("level").equal_to(f64::NAN))
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn every_row_with_its_key_pinned_is_a_page_with_cursors() {
    let (_, query) = events(&open().await, 3).await;
    let query = query.filter(r#"stream = "a" AND at = 1 AND id = 0"#);
    let page = query.clone().await.unwrap();
    assert_eq!(
        (times(&page), page.has_previous(), page.has_next()),
        (vec![1], Some(false), Some(false))
    );
    let cursor = page.cursor(0);
    assert!(query.clone().after(cursor.clone()).await.unwrap().is_empty());
    assert!(query.clone().before(cursor.clone()).await.unwrap().is_empty());
    assert_eq!(times(&query.clone().around(cursor.clone()).await.unwrap()), [1]);
    let after = query.clone().after(cursor).both_edges().await.unwrap();
    assert_eq!(
        (after.has_previous(), after.has_next()),
        (Some(true), Some(false))
    );
    let back = query.page_token(after.previous_cursor().unwrap()).await.unwrap();
    assert_eq!(times(&back), [1]);
}

#[tokio::test]
async fn cursors_do_not_care_in_which_order_tuple_ranges_stand() {
    let (_, query) = events(&open().await, 4).await;
    let one = query
        .clone()
        .filter(r#"stream = "a" AND (at, id) > (0, 0) AND (at, id) <= (3, 0)"#);
    let other = query.filter(r#"(at, id) <= (3, 0) AND stream = "a" AND (at, id) > (0, 0)"#);
    let token = one.first(1).await.unwrap().next_cursor().unwrap();
    assert_eq!(times(&other.after(token).await.unwrap()), [2, 3]);
}

#[tokio::test]
async fn a_contradiction_reads_the_same_in_any_order() {
    let (_, query) = events(&open().await, 2).await;
    let one = query.clone().filter(r#"stream = "a" AND at = 1 AND at = 2"#);
    let other = query.filter(r#"at = 2 AND stream = "a" AND at = 1"#);
    let token = one.from([7]).await.unwrap().previous_cursor().unwrap();
    assert!(other.page_token(token).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn applies_the_request_timeout_of_the_open_options() {
    let inner = Arc::new(MemoryStore::new(Environment::system()));
    let store = Arc::new(FaultyStore::new(inner, 1, FaultRates::NONE));
    let options = OpenOptions::new().request_timeout(Duration::from_millis(1));
    let recto = Recto::with_store(Arc::clone(&store) as Arc<dyn Store>, options)
        .await
        .unwrap();
    recto.apply(&schema()).await.unwrap();
    store.set_rates(FaultRates {
        delay: 1.0,
        max_delay: Duration::from_secs(360_000),
        ..FaultRates::NONE
    });
    let pairs = recto.dynamic("pairs").unwrap();
    let pair = record(&pairs, &json!({ "left": 1, "right": 2 }));
    assert!(matches!(
        pairs.put(&pair).await.unwrap_err().kind(),
        ErrorKind::Timeout | ErrorKind::OutcomeUnknown
    ));
    assert_eq!(pairs.get((1, 2)).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(
        pairs
            .query()
            .filter("left = 1 AND right = 2")
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Timeout
    );
}

#[tokio::test]
async fn tuple_ranges_are_built_with_what_the_crate_exports() {
    let (_, query) = events(&open().await, 4).await;
    let page = query
        .matching(tuple(["at", "id"], Operator::Greater, [1, 0]))
        .await
        .unwrap();
    assert_eq!(times(&page), [2, 3]);
}

#[tokio::test]
async fn accepts_scalars_tuples_and_text_as_keys() {
    #[derive(Debug, PartialEq, recto::Record)]
    #[record(collection = "counters", key = ["n"], writes = "overwrite")]
    struct Counter {
        n: i64,
    }
    let memory = Arc::new(MemoryStore::new(Environment::system()));
    let store = Recto::with_store(memory, OpenOptions::new()).await.unwrap();
    store
        .apply(&recto::schema_of([Counter::collection()]))
        .await
        .unwrap();
    let counters = store.collection::<Counter>().unwrap();
    counters.put(&Counter { n: 5 }).await.unwrap();
    assert_eq!(counters.get(5_i64).await.unwrap(), Some(Counter { n: 5 }));
    assert_eq!(counters.get(5).await.unwrap(), Some(Counter { n: 5 }));
    assert_eq!(counters.get((5,)).await.unwrap(), Some(Counter { n: 5 }));
    assert_eq!(counters.get("5").await.unwrap(), Some(Counter { n: 5 }));
    assert_eq!(
        counters.get("five").await.unwrap_err().kind(),
        ErrorKind::InvalidRecord
    );
    assert_eq!(
        counters.get((5, 6)).await.unwrap_err().kind(),
        ErrorKind::InvalidRecord
    );
}

/// Checks that Recto rejects a schema if its new views and the existing views together exceed the
/// maximum number of views.
#[tokio::test]
async fn rejects_more_views_than_a_schema_can_declare() {
    let memory = Arc::new(MemoryStore::new(Environment::system()));
    let store = Recto::with_store(memory, OpenOptions::new()).await.unwrap();
    let notes = |name: &str, views: usize| {
        let views = (0..views)
            .map(|index| format!("[collection.notes.view.{name}_{index}]\npartition = [\"tag\"]\n"));
        let views: String = views.collect();
        let fields = "fields = { id = \"int\", tag = \"text\" }\nkey = [\"id\"]";
        Schema::parse(&format!("[collection.notes]\n{fields}\n{views}")).unwrap()
    };
    store.apply(&notes("one", 40)).await.unwrap();
    let error = store.apply(&notes("two", 40)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.message().contains("would have 80 views"), "{error}");
    store.apply(&notes("two", 20)).await.unwrap();
}

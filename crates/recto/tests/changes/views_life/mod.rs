//! Tests of the life of views: they are added to existing records, changed, dropped, compared with
//! their records, and repaired. The process that does so may be killed at any point.

mod added;
#[allow(dead_code)]
#[path = "../../models/simulation/clock.rs"]
mod clock;
mod doors;
mod drift;
#[allow(dead_code)]
#[path = "../../models/simulation/gate.rs"]
mod gate;
mod killed;
mod leases;
mod plain;
mod resumed;
mod writers;

use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, Suite, run};
use futures::stream::{self, StreamExt};
use recto::session::{VerifyReport, VerifyRequest};
use recto::{Collection, DynamicRecord, Recto};
use serde_json::{Value as Json, json};

/// Schema of two collections: records of `events` are only appended, and records of `people` can be
/// updated.
pub(crate) const BASE: &str = r#"
[collection.events]
fields = { day = "int", id = "int", what = "text", score = "int", note = "text" }
key = ["day", "id"]
partition = ["day"]
order = ["-id"]
writes = "append"

[collection.people]
fields = { id = "int", city = "text", age = "int", note = "text" }
key = ["id"]
"#;

/// Views of both collections.
pub(crate) const VIEWS: &str = r#"
[collection.events.view.by_what]
partition = ["what"]
order = ["-score"]

[collection.people.view.by_city]
partition = ["city"]
order = ["age"]

[collection.people.view.ages]
partition = ["city"]
order = ["-age"]
nulls = "skip"
fields = ["note"]
"#;

/// Number of records of one batch. It is below Cassandra's maximum for a logged batch.
const BATCH_RECORDS: usize = 200;
/// Test suite of the tests that use stores in files or on Cassandra.
static TESTS: Suite = Suite::new(module_path!(), 13);

macro_rules! behaviours {
    ($($module:ident::$name:ident),+ $(,)?) => {
        mod memory {
            $(#[test]
            fn $name() {
                super::run(async { super::$module::$name(super::in_memory().await).await });
            })+
        }

        mod embedded {
            $(#[test]
            fn $name() {
                let _scope = super::Scope::new(&super::TESTS);
                super::run(async { super::$module::$name(super::embedded().await).await });
            })+
        }
    };
}

behaviours! {
    added::a_view_that_is_added_has_every_record,
    added::a_view_that_changes_is_made_anew,
    added::a_view_is_dropped_by_name,
    added::a_table_that_is_gone_is_filled_anew,
    added::a_field_that_is_added_is_in_full_views,
    drift::old_orphans_are_removed_and_records_keep_their_versions,
    drift::finds_and_repairs_wrong_entries,
    resumed::reports_the_same_findings_after_a_stop,
    resumed::repairs_the_remaining_faults_after_a_stop,
}

mod memory_by_writer {
    /// Runs in virtual time: Tokio's clock advances when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn notices_a_dropped_view_in_a_reading_process() {
        let recto = crate::common::stores::in_memory(false).await;
        super::added::notices_a_dropped_view_in_a_reading_process(recto).await;
    }

    #[test]
    fn reports_the_same_findings_after_a_stop() {
        super::run(async {
            let recto = crate::common::stores::in_memory(false).await;
            super::resumed::reports_the_same_findings_after_a_stop(recto).await;
        });
    }

    #[tokio::test(start_paused = true)]
    async fn finds_missing_entries_during_inserts() {
        let recto = crate::common::stores::in_memory(false).await;
        super::drift::finds_missing_entries_during_inserts(recto).await;
    }

    #[tokio::test(start_paused = true)]
    async fn old_orphans_are_removed_and_records_keep_their_versions() {
        let recto = crate::common::stores::in_memory(false).await;
        super::drift::old_orphans_are_removed_and_records_keep_their_versions(recto).await;
    }

    #[tokio::test(start_paused = true)]
    async fn finds_and_repairs_wrong_entries() {
        let recto = crate::common::stores::in_memory(false).await;
        super::drift::finds_and_repairs_wrong_entries(recto).await;
    }
}

mod cassandra {
    use super::{Fresh, Kind, Scope, TESTS, added, drift, resumed, run, writers};

    #[test]
    #[ignore = "slow: a minute on Cassandra"]
    fn reports_the_same_findings_after_a_stop() {
        let _scope = Scope::new(&TESTS);
        run(async {
            let recto = Fresh::new(Kind::Cassandra).open().await;
            resumed::reports_the_same_findings_after_a_stop(recto).await;
        });
    }

    #[test]
    #[ignore = "slow: a minute on Cassandra"]
    fn repairs_the_remaining_faults_after_a_stop() {
        let _scope = Scope::new(&TESTS);
        run(async {
            let recto = Fresh::new(Kind::Cassandra).open().await;
            resumed::repairs_the_remaining_faults_after_a_stop(recto).await;
        });
    }

    #[test]
    fn reports_entries_that_are_too_new_to_repair() {
        let _scope = Scope::new(&TESTS);
        run(async {
            let recto = Fresh::new(Kind::Cassandra).open().await;
            drift::reports_entries_that_are_too_new_to_repair(recto).await;
        });
    }

    #[test]
    fn finds_and_repairs_wrong_entries() {
        let _scope = Scope::new(&TESTS);
        run(async {
            let recto = Fresh::new(Kind::Cassandra).open().await;
            drift::finds_and_repairs_wrong_entries(recto).await;
        });
    }

    #[test]
    #[ignore = "slow: a minute on Cassandra"]
    fn old_orphans_are_removed_and_records_keep_their_versions() {
        let _scope = Scope::new(&TESTS);
        run(async {
            let recto = Fresh::new(Kind::Cassandra).open().await;
            drift::old_orphans_are_removed_and_records_keep_their_versions(recto).await;
        });
    }

    #[test]
    fn removes_stale_entries_found_by_a_page() {
        let _scope = Scope::new(&TESTS);
        run(async {
            let recto = Fresh::new(Kind::Cassandra).open().await;
            drift::removes_stale_entries_found_by_a_page(recto).await;
        });
    }

    #[test]
    fn a_view_that_is_added_has_every_record() {
        let _scope = Scope::new(&TESTS);
        run(async {
            let recto = Fresh::new(Kind::Cassandra).open().await;
            added::a_view_that_is_added_has_every_record(recto).await;
        });
    }

    #[test]
    #[ignore = "slow: a minute on Cassandra"]
    fn views_of_plain_records_are_added_while_others_write() {
        let _scope = Scope::new(&TESTS);
        run(writers::plain_views_are_added_while_others_write(&Fresh::new(
            Kind::Cassandra,
        )));
    }
}

async fn in_memory() -> Recto {
    crate::common::stores::in_memory(true).await
}

async fn embedded() -> Recto {
    Fresh::new(Kind::Embedded).open().await
}

pub(crate) fn with_views() -> recto::schema::Schema {
    parse(&format!("{BASE}{VIEWS}"))
}

pub(crate) fn event(number: i32) -> Json {
    let mut event =
        json!({ "day": number % 7, "id": number, "what": format!("w{}", number % 5), "note": "n" });
    if number % 3 != 0 {
        event["score"] = (number % 11).into();
    }
    if number % 13 == 0 {
        event.as_object_mut().unwrap().remove("what");
    }
    event
}

pub(crate) fn person(number: i32) -> Json {
    let mut person = json!({ "id": number, "city": format!("c{}", number % 4) });
    if number % 3 != 0 {
        person["age"] = (number % 90).into();
    }
    if number % 5 == 0 {
        person["note"] = format!("note {number}").into();
    }
    person
}

pub(crate) fn record(collection: &Collection<DynamicRecord>, json: &Json) -> DynamicRecord {
    DynamicRecord::from_json(collection.definition(), json.as_object().unwrap()).unwrap()
}

/// Stores `count` records in each of the two collections.
pub(crate) async fn fill(recto: &Recto, count: i32) {
    fill_each(recto, count, count).await;
}

/// Stores the given numbers of events and of people.
pub(crate) async fn fill_each(recto: &Recto, event_count: i32, person_count: i32) {
    let events = recto.dynamic("events").unwrap();
    let records: Vec<DynamicRecord> = (0..event_count)
        .map(|number| record(&events, &event(number)))
        .collect();
    for chunk in records.chunks(BATCH_RECORDS) {
        events.put_all(chunk).await.unwrap();
    }
    let people = recto.dynamic("people").unwrap();
    let puts = (0..person_count).map(|number| {
        let (people, record) = (people.clone(), record(&people, &person(number)));
        async move { people.put(&record).await.map(drop).unwrap() }
    });
    stream::iter(puts).buffer_unordered(64).collect::<()>().await;
}

pub(crate) async fn verify(recto: &Recto, request: &VerifyRequest) -> VerifyReport {
    recto.verify(request, &|_| {}).await.unwrap()
}

/// Asserts that every view is ready, and has exactly the rows that the records require. Returns the
/// total number of rows of all views.
pub(crate) async fn assert_all_is_well(recto: &Recto) -> u64 {
    let views = recto.views().await.unwrap();
    assert!(views.iter().all(|view| view.state == "ready"), "{views:?}");
    let report = verify(recto, &VerifyRequest::default()).await;
    assert_eq!((report.wrong(), report.left_out.len()), (0, 0), "{report:?}");
    assert_eq!(report.views.len(), views.len());
    for view in &report.views {
        assert_eq!(view.records, view.entries, "{view:?}");
    }
    for collection in ["events", "people"] {
        crate::common::exact::assert_views_are_exact(recto, collection).await;
    }
    report.views.iter().map(|view| view.entries).sum()
}

/// Returns the names of all tables except Recto's internal tables.
pub(crate) async fn tables(recto: &Recto) -> Vec<String> {
    let tables = recto.store().list_tables().await.unwrap();
    let names = tables.iter().map(|table| table.name().to_owned());
    names.filter(|name| !name.starts_with("recto_")).collect()
}

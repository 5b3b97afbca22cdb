//! Tests of loading files into collections with views. In every write mode, each record must be
//! stored together with its rows in the views.

use std::path::Path;
use std::sync::Arc;

use recto::session::{LoadReport, LoadRequest, LoadedView};
use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{DynamicRecord, Environment, ErrorKind, LocalSession, Recto};

use crate::common::exact::assert_views_are_exact;
use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, Suite, run};
use crate::support::{Bench, Fault, Unreliable, load_into, open_with, records_of};

/// Schema of flights as in the demo, with one collection for each write mode whose records have no
/// versions.
pub(crate) const SCHEMA: &str = r#"
[collection.appended]
fields = { time_hour = "timestamp", carrier = "text", flight = "int", origin = "text", dest = "text", tailnum = "text", dep_delay = "int", crew = "text" }
key = ["time_hour", "carrier", "flight"]
partition = ["carrier"]
order = ["-time_hour"]
writes = "append"

[collection.appended.view.by_route]
partition = ["origin", "dest"]
order = ["-time_hour"]

[collection.appended.view.by_tailnum]
partition = ["tailnum"]
order = ["-time_hour"]
fields = ["origin", "dest"]

[collection.overwritten]
fields = { time_hour = "timestamp", carrier = "text", flight = "int", origin = "text", dest = "text", tailnum = "text", dep_delay = "int", crew = "text" }
key = ["time_hour", "carrier", "flight"]
partition = ["carrier"]
order = ["-time_hour"]
writes = "overwrite"

[collection.overwritten.view.by_flight]
partition = ["flight"]
order = ["-time_hour"]
"#;

/// Schema of a collection whose records can be updated. A store without transactions loads it in
/// another way.
pub(crate) const CHANGING: &str = r#"
[collection.updated]
fields = { time_hour = "timestamp", carrier = "text", flight = "int", origin = "text", dest = "text", tailnum = "text", dep_delay = "int", crew = "text" }
key = ["time_hour", "carrier", "flight"]

[collection.updated.view.by_route]
partition = ["origin", "dest"]
order = ["-time_hour"]

[collection.updated.view.by_tailnum]
partition = ["tailnum"]
order = ["-time_hour"]
nulls = "skip"
fields = ["origin", "dest"]

[collection.updated.view.by_crew]
partition = ["carrier"]
order = ["-crew"]
collate = "sv"
"#;

/// Names in Swedish order, which differs from the order of their bytes.
const CREWS: [&str; 6] = ["apelsin", "Banan", "zebra", "Åsa", "ärlig", "Örjan"];

const HEADER: &str = "time_hour,carrier,flight,origin,dest,tailnum,dep_delay,crew\n";
const FLIGHTS: usize = 1_200;
/// Number of consecutive flights among which one has no tail number.
const NO_TAIL_NUMBER: usize = 50;

/// Test suite of the tests that use stores in files or on Cassandra.
static TESTS: Suite = Suite::new(module_path!(), 4);

/// Returns a line of the sample file. If `again` is true, every third flight has another aircraft
/// and another destination.
fn flight(number: usize, again: bool) -> String {
    let changed = usize::from(again && number.is_multiple_of(3));
    let tailnum = match (number + changed) % NO_TAIL_NUMBER {
        0 => String::new(),
        _ => format!("N{}", (number + 7 * changed) % 200),
    };
    format!(
        "2013-{:02}-{:02}T{:02}:00:00Z,{},{number},{},{},{tailnum},{},{}\n",
        number % 12 + 1,
        number % 28 + 1,
        number % 24,
        ["UA", "AA", "DL"][number % 3],
        ["JFK", "LGA", "EWR"][(number / 3 + changed) % 3],
        ["LAX", "SFO", "ORD", "MIA"][(number / 7 + changed) % 4],
        number % 90,
        CREWS[(number / 5 + changed) % CREWS.len()]
    )
}

pub(crate) fn sample(count: usize, again: bool) -> String {
    // Write the rows in an order that differs from the order of every table.
    let flights = (0..count).map(|number| flight(number * 7_919 % count, again));
    std::iter::once(HEADER.to_owned()).chain(flights).collect()
}

async fn load(session: &LocalSession, file: &Path, collections: &[&str]) -> LoadReport {
    let change = |request: &mut LoadRequest| {
        request.collections = collections.iter().map(|&name| name.into()).collect();
        request.buffer_bytes = Some(512 << 10);
        request.again = true;
    };
    load_into(session, file, change).await.unwrap()
}

fn view(name: &str, entries: usize, left_out: usize) -> LoadedView {
    let mut view = LoadedView::default();
    name.clone_into(&mut view.name);
    view.entries = entries as u64;
    view.left_out = left_out as u64;
    view
}

/// Returns the numbers of stored, replaced, repeated and rejected rows of a collection.
pub(crate) fn counts(report: &LoadReport, collection: &str) -> [u64; 4] {
    let of = report.collections.iter().find(|one| one.name == collection);
    let of = of.unwrap();
    [
        of.rows_stored,
        of.rows_replaced,
        of.rows_repeated,
        of.rows_rejected,
    ]
}

async fn assert_exact(recto: &Recto, collections: &[&str], count: usize) {
    for collection in collections {
        assert_eq!(
            assert_views_are_exact(recto, collection).await,
            count,
            "{collection}"
        );
    }
}

const ALL: [&str; 3] = ["appended", "overwritten", "updated"];

/// Checks three loads in every write mode: of a file, of a file with other values for some records,
/// and of the second file again.
async fn every_mode(recto: Recto) {
    recto.apply(&parse(&format!("{SCHEMA}{CHANGING}"))).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a.csv"), folder.path().join("b.csv"));
    std::fs::write(&first, sample(FLIGHTS, false)).unwrap();
    std::fs::write(&second, sample(FLIGHTS, true)).unwrap();
    let session = LocalSession::new(recto.clone());

    let all = FLIGHTS as u64;
    let report = load(&session, &first, &ALL).await;
    for collection in ALL {
        assert_eq!(counts(&report, collection), [all, 0, 0, 0], "{collection}");
    }
    let left_out = FLIGHTS / NO_TAIL_NUMBER;
    let by_tailnum = view("by_tailnum", FLIGHTS - left_out, left_out);
    assert_eq!(
        report.collections[0].views,
        [view("by_route", FLIGHTS, 0), by_tailnum]
    );
    assert_eq!(report.collections[1].views, [view("by_flight", FLIGHTS, 0)]);
    let by_crew = view("by_crew", FLIGHTS, 0);
    assert_eq!(report.collections[2].views[..1], [by_crew]);
    assert_eq!(report.collections[2].views[1..], report.collections[0].views);
    assert_sorted_as_people_do(&recto).await;
    assert_exact(&recto, &ALL, FLIGHTS).await;

    let (changed, same) = (all / 3, all - all / 3);
    let report = load(&session, &second, &ALL).await;
    assert_eq!(counts(&report, "appended"), [0, 0, same, changed]);
    assert_eq!(counts(&report, "overwritten"), [0, changed, same, 0]);
    assert_eq!(counts(&report, "updated"), [0, changed, same, 0]);
    assert_exact(&recto, &ALL, FLIGHTS).await;

    assert_sorted_as_people_do(&recto).await;
    let before = records_of(&session, "updated").await;
    assert_eq!(before, records_of(&session, "overwritten").await);
    assert_ne!(before, records_of(&session, "appended").await);
    let third = folder.path().join("c.csv");
    std::fs::copy(&second, &third).unwrap();
    let report = load(&session, &third, &ALL[1..]).await;
    assert_eq!(counts(&report, "overwritten"), [0, 0, all, 0]);
    assert_eq!(counts(&report, "updated"), [0, 0, all, 0]);
    assert_eq!(before, records_of(&session, "updated").await);
    assert_exact(&recto, &ALL, FLIGHTS).await;
}

/// Asserts that pages of a view of the loaded records are in the order of the view's language.
async fn assert_sorted_as_people_do(recto: &Recto) {
    let flights = recto.dynamic("updated").unwrap();
    let query = flights
        .query()
        .filter("carrier = \"UA\"")
        .order_by("-crew")
        .page_size(90);
    let (mut page, mut crews) = (query.clone().await.unwrap(), Vec::new());
    loop {
        let crew = |flight: &DynamicRecord| flight.to_json()["crew"].as_str().unwrap().to_owned();
        crews.extend(page.items().iter().map(crew));
        let Some(next) = page.next_cursor() else { break };
        page = query.clone().page_token(next).await.unwrap();
    }
    assert_eq!(crews.len(), FLIGHTS / 3);
    crews.dedup();
    assert!(crews.iter().rev().eq(&CREWS), "{crews:?}");
}

async fn in_memory(store: Arc<dyn Store>) -> Recto {
    open_with(store, &format!("{SCHEMA}{CHANGING}")).await
}

#[test]
fn every_mode_fills_views_in_memory() {
    run(async {
        let store = Arc::new(MemoryStore::new(Environment::system()));
        every_mode(in_memory(store).await).await;
    });
}

#[test]
fn every_mode_fills_views_of_an_embedded_store() {
    let _scope = Scope::new(&TESTS);
    run(async { every_mode(Fresh::new(Kind::Embedded).open().await).await });
}

/// Checks that loading records without versions fills views on Cassandra, although Cassandra does
/// not report which rows existed before.
#[test]
fn plain_modes_fill_views_on_cassandra() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let recto = Fresh::new(Kind::Cassandra).open().await;
        recto.apply(&parse(SCHEMA)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        std::fs::write(&file, sample(FLIGHTS, false)).unwrap();
        let session = LocalSession::new(recto.clone());
        let plain = &ALL[..2];
        for _ in 0..2 {
            let report = load(&session, &file, plain).await;
            assert_eq!(counts(&report, "appended"), [FLIGHTS as u64, 0, 0, 0]);
            assert_eq!(report.collections[0].views[0], view("by_route", FLIGHTS, 0));
            assert_exact(&recto, plain, FLIGHTS).await;
        }
        std::fs::write(&file, sample(FLIGHTS, true)).unwrap();
        load(&session, &file, &plain[1..]).await;
        assert_exact(&recto, plain, FLIGHTS).await;
    });
}

/// Checks that a load can be interrupted at any point and resumed. The resumed load must check
/// which rows exist instead of assuming it, so that the views are exact.
#[test]
fn a_load_that_was_interrupted_anywhere_leaves_views_exact() {
    run(async {
        let mut resumed = 0;
        for (number, good) in [0, 1, 5, 30, 160, 301].into_iter().enumerate() {
            let bench = Bench::new().await;
            let file = bench.file("a.csv", sample(FLIGHTS, false));
            let fault = [Fault::Fails, Fault::Unknown][number % 2];
            let whole = in_memory(Arc::new(bench.store.clone())).await;
            let store = Unreliable::new(
                &bench.store,
                fault,
                i64::MAX,
                if number % 2 == 0 { i64::MAX } else { 2 },
            );
            let recto = in_memory(Arc::clone(&store) as Arc<dyn Store>).await;
            store.begin(good);
            let small = |request: &mut LoadRequest| {
                request.collections = ALL.map(str::to_owned).to_vec();
                request.buffer_bytes = Some(192 << 10);
            };
            let loaded = load_into(&LocalSession::new(recto), &file, small).await;
            assert_eq!(loaded.is_err(), fault == Fault::Fails, "{loaded:?}");
            // Even after a stopped load, each record must be either complete or missing, so that
            // the views are exact.
            for collection in ALL {
                assert_views_are_exact(&whole, collection).await;
            }
            let session = LocalSession::new(whole.clone());
            let report = load_into(&session, &file, small).await.unwrap();
            resumed = resumed.max(report.rows_resumed);
            for collection in ALL {
                assert_eq!(
                    counts(&report, collection),
                    [FLIGHTS as u64, 0, 0, 0],
                    "{collection}, {good}"
                );
            }
            assert_eq!(report.collections[0].views[0], view("by_route", FLIGHTS, 0));
            assert_exact(&whole, &ALL, FLIGHTS).await;
        }
        assert!(resumed > 0, "no load got as far as a checkpoint");
    });
}

#[test]
fn rejects_rows_with_values_too_large_for_a_view() {
    run(async {
        let bench = Bench::new().await;
        let recto = in_memory(Arc::new(bench.store.clone())).await;
        let long = "x".repeat(9_000);
        let text = format!(
            "{HEADER}2013-01-01T10:00:00Z,UA,1,{long},LAX,N1,1,\n2013-01-01T10:00:00Z,UA,2,JFK,LAX,N1,1,\n"
        );
        let file = bench.file("a.csv", text);
        let session = LocalSession::new(recto.clone());
        let report = load(&session, &file, &["appended", "updated"]).await;
        for collection in ["appended", "updated"] {
            assert_eq!(counts(&report, collection), [1, 0, 0, 1], "{collection}");
        }
        let rejects = bench.text("a.csv.rejects.csv");
        let reason = "2,updated,a record of updated does not fit view by_route: origin is too large";
        assert!(rejects.contains(reason), "{rejects}");
        assert!(
            rejects
                .contains("2,appended,a record of appended does not fit view by_route: origin is too large"),
            "{rejects}"
        );
        assert_exact(&recto, &["appended", "updated"], 1).await;
    });
}

/// Checks a load while other tasks update the same records. Each record must then have all values
/// of the load, or all values of one of the tasks.
#[test]
fn a_load_beside_writers_leaves_views_exact() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let recto = Fresh::new(Kind::Embedded).open().await;
        recto.apply(&parse(CHANGING)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        let session = LocalSession::new(recto.clone());
        std::fs::write(&file, sample(FLIGHTS, false)).unwrap();
        load(&session, &file, &["updated"]).await;
        let writers = (0..4_usize).map(|writer| {
            let recto = recto.clone();
            tokio::spawn(async move {
                let flights = recto.dynamic("updated").unwrap();
                for round in 0..100_usize {
                    let number = (round * 4 + writer) % 40;
                    let line = flight(number, false);
                    let time = line.split(',').next().unwrap().to_owned();
                    let carrier = ["UA", "AA", "DL"][number % 3];
                    let update = flights.update((time, carrier, i32::try_from(number).unwrap()));
                    let update = update.set("dest", format!("D{round}")).set("tailnum", "N1");
                    match update.await {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
                    }
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        std::fs::write(&file, sample(FLIGHTS, true)).unwrap();
        let report = load(&session, &file, &["updated"]).await;
        assert_eq!(counts(&report, "updated").iter().sum::<u64>(), FLIGHTS as u64);
        for writer in writers {
            writer.await.unwrap();
        }
        assert_exact(&recto, &["updated"], FLIGHTS).await;
    });
}

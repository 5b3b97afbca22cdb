//! Tests of adding views to records without versions, while other processes do not know the views
//! yet. The tests use a store without transactions, in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use recto::session::{VerifyRequest, ViewProgress};
use recto::{ApplyOptions, Collection, DynamicRecord, ErrorKind, LocalSession, Recto, Session};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::clock::Random;
use super::doors::{Door, Doors, World, in_virtual_time};
use super::{event, record, verify};
use crate::common::exact::assert_views_are_exact;
use crate::common::stores::parse;

/// Schema of two collections: records of `events` are only appended, and records of `readings` are
/// overwritten.
pub(crate) const PLAIN: &str = r#"
[collection.events]
fields = { day = "int", id = "int", what = "text", score = "int", note = "text" }
key = ["day", "id"]
partition = ["day"]
order = ["-id"]
writes = "append"

[collection.readings]
fields = { sensor = "int", hour = "int", degrees = "int" }
key = ["sensor", "hour"]
partition = ["sensor"]
order = ["hour"]
writes = "overwrite"
"#;

/// Views of both collections. The view of appended records sorts by fields outside the key. The
/// view of overwritten records sorts by key fields.
pub(crate) const PLAIN_VIEWS: &str = r#"
[collection.events.view.by_what]
partition = ["what"]
order = ["-score"]

[collection.readings.view.by_hour]
partition = ["hour"]
order = ["-sensor"]
"#;

const RECORDS: i32 = 400;
/// Time that exceeds the time after which a process is regarded as dead. A process that others wait
/// for renews its lease, so it does not count as dead.
const LONG: Duration = Duration::from_secs(60);
/// Time that exceeds the backfill of the views, if the backfill does not wait for other processes.
const QUICK: Duration = Duration::from_secs(12);

pub(crate) fn schema() -> String {
    format!("{PLAIN}{PLAIN_VIEWS}")
}

fn reading(records: &Collection<DynamicRecord>, number: i32, degrees: i32) -> DynamicRecord {
    let json = json!({ "sensor": number % 10, "hour": number / 10, "degrees": degrees });
    record(records, &json)
}

/// Stores the record with the given number in each of the two collections.
pub(crate) async fn put(recto: &Recto, number: i32, degrees: i32) {
    let (events, readings) = (
        recto.dynamic("events").unwrap(),
        recto.dynamic("readings").unwrap(),
    );
    events.put(&record(&events, &event(number))).await.unwrap();
    let reading = reading(&readings, number, degrees);
    readings.put(&reading).await.unwrap();
}

pub(crate) async fn fill(recto: &Recto, count: i32) {
    let (events, readings) = (
        recto.dynamic("events").unwrap(),
        recto.dynamic("readings").unwrap(),
    );
    for first in (0..count).step_by(100) {
        let numbers = first..count.min(first + 100);
        let records: Vec<_> = numbers.clone().map(|one| record(&events, &event(one))).collect();
        events.put_all(&records).await.unwrap();
        let records: Vec<_> = numbers.map(|one| reading(&readings, one, one)).collect();
        readings.put_all(&records).await.unwrap();
    }
}

/// Asserts that all views are ready, and have exactly the rows that the records require. Returns
/// the number of records.
pub(crate) async fn assert_views_are_true(recto: &Recto) -> usize {
    let views = recto.views().await.unwrap();
    assert!(views.iter().all(|view| view.state == "ready"), "{views:?}");
    let report = verify(recto, &VerifyRequest::default()).await;
    assert_eq!(
        (report.wrong(), report.views.len()),
        (0, views.len()),
        "{report:?}"
    );
    let mut records = 0;
    for collection in ["events", "readings"] {
        records += assert_views_are_exact(recto, collection).await;
    }
    records
}

/// Returns the total number of rows of all views.
async fn entries(world: &World, recto: &Recto) -> usize {
    let mut entries = 0;
    for view in recto.views().await.unwrap() {
        entries += world.rows_of(&view.table).await;
    }
    entries
}

fn apply(recto: &Recto, schema: &str) -> JoinHandle<recto::session::Applied> {
    let (recto, schema) = (recto.clone(), parse(schema));
    tokio::spawn(async move { recto.apply(&schema).await.unwrap() })
}

/// Returns a schema and two processes. The first process has applied the schema, which has a view
/// of events, so that the deletion of an event first reads the event. The second process has stored
/// `count` records.
pub(crate) async fn two_with_a_view(world: &World, count: i32) -> (String, Recto, Recto, Arc<Doors>) {
    let (one, _) = world.process(1, 0).await;
    let before =
        format!("{PLAIN}[collection.events.view.by_day]\npartition = [\"day\"]\norder = [\"score\"]\n");
    one.apply(&parse(&before)).await.unwrap();
    let (other, doors) = world.process(2, 0).await;
    fill(&other, count).await;
    (before, one, other, doors)
}

#[test]
fn waits_for_writes_that_do_not_know_the_view() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(PLAIN)).await.unwrap();
        let (other, doors) = world.process(2, -1_800_000_000).await;
        fill(&other, RECORDS).await;
        // Let the renewals of `other` pass, but delay its writes of records.
        doors.hold(Door::Writes);
        let writing = other.clone();
        let written = tokio::spawn(async move { put(&writing, RECORDS, 1).await });
        sleep(Duration::from_secs(1)).await;
        let mut applying = apply(&one, &schema());
        assert!(timeout(LONG, &mut applying).await.is_err(), "it is waited for");
        assert_eq!(entries(&world, &one).await, 0);
        doors.open();
        written.await.unwrap();
        timeout(LONG, applying).await.unwrap().unwrap();
        assert_eq!(
            assert_views_are_true(&one).await,
            2 * usize::try_from(RECORDS + 1).unwrap()
        );
    });
}

#[test]
fn reports_awaited_processes_and_times_out() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(PLAIN)).await.unwrap();
        let (other, doors) = world.process(2, 0).await;
        fill(&other, RECORDS).await;
        doors.hold(Door::Writes);
        let writing = other.clone();
        let written = tokio::spawn(async move { put(&writing, RECORDS, 1).await });
        sleep(Duration::from_secs(1)).await;
        let steps = Mutex::new(Vec::new());
        let tell = |at: ViewProgress| steps.lock().unwrap().push(at.step);
        let (session, options) = (LocalSession::new(one.clone()), ApplyOptions::new());
        let began = Instant::now();
        let applied = session
            .tools()
            .unwrap()
            .apply(&parse(&schema()), &options, &tell)
            .await;
        let error = applied.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(
            (295..320).contains(&began.elapsed().as_secs()),
            "{:?}",
            began.elapsed()
        );
        let awaited = " s: 1 process: ";
        let (text, says) = (error.to_string(), "(writes with schema generation 1)");
        assert!(text.contains(awaited) && text.contains(says), "{text}");
        let steps = steps.into_inner().unwrap();
        let told = |step: &String| step.starts_with("waiting for 1 process: ") && step.ends_with(says);
        assert!(steps.iter().filter(|step| told(step)).count() > 100, "{steps:?}");
        assert!(
            one.views()
                .await
                .unwrap()
                .iter()
                .all(|view| view.state == "building")
        );
        // A second apply of the same schema must continue the first one.
        doors.open();
        written.await.unwrap();
        one.apply(&parse(&schema())).await.unwrap();
        assert_views_are_true(&one).await;
    });
}

#[test]
fn waits_for_an_abandoned_write() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(PLAIN)).await.unwrap();
        let (other, doors) = world.process(2, 0).await;
        fill(&other, RECORDS).await;
        doors.hold(Door::Writes);
        let writing = other.clone();
        let given_up = tokio::spawn(async move { put(&writing, RECORDS, 1).await });
        sleep(Duration::from_secs(1)).await;
        given_up.abort();
        let mut applying = apply(&one, &schema());
        assert!(
            timeout(QUICK, &mut applying).await.is_err(),
            "it may be on its way"
        );
        assert_eq!(entries(&world, &one).await, 0);
        timeout(LONG, applying).await.unwrap().unwrap();
        assert_views_are_true(&one).await;
    });
}

#[test]
fn adds_late_writes_of_a_frozen_process_to_new_views() {
    in_virtual_time(async {
        let world = World::new();
        let (before, one, other, doors) = two_with_a_view(&world, RECORDS).await;
        let (putting, deleting) = (other.clone(), other.clone());
        doors.hold(Door::Writes);
        let put_late = tokio::spawn(async move { put(&putting, RECORDS, 1).await });
        let deleted_late = tokio::spawn(async move {
            let events = deleting.dynamic("events").unwrap();
            events.delete((3, 10)).await.map(drop).unwrap();
        });
        sleep(Duration::from_secs(1)).await;
        // No request of `other` passes any more. Other processes must find it dead, and stop
        // waiting for it.
        doors.gate.open(false);
        timeout(2 * LONG, apply(&one, &(before + PLAIN_VIEWS)))
            .await
            .unwrap()
            .unwrap();
        doors.open();
        doors.gate.open(true);
        put_late.await.unwrap();
        deleted_late.await.unwrap();
        assert_eq!(other.writer_metrics().lost, 1);
        assert_eq!(one.views().await.unwrap().len(), 3);
        assert_eq!(
            assert_views_are_true(&one).await,
            2 * usize::try_from(RECORDS + 1).unwrap() - 1
        );
        put(&other, RECORDS + 1, 1).await;
        assert_views_are_true(&one).await;
    });
}

#[test]
fn closes_cleanly_and_blocks_no_later_apply() {
    let people = "[collection.people]\nfields = { id = \"int\", city = \"text\" }\nkey = [\"id\"]\n\
                  [collection.people.view.by_city]\npartition = [\"city\"]\n";
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(&format!("{PLAIN}{people}"))).await.unwrap();
        put(&one, RECORDS, 1).await;
        let mut others = Vec::new();
        for seed in 2..6 {
            let (other, _) = world.process(seed, 0).await;
            fill(&other, RECORDS).await;
            let people = other.dynamic("people").unwrap();
            for id in 0..20 {
                let person = json!({ "id": id, "city": format!("c{seed}") });
                people.put(&record(&people, &person)).await.unwrap();
            }
            others.push(other);
        }
        assert_eq!(world.rows_of("recto_writers").await, 5);
        assert!(world.rows_of("recto_intents").await > 0);
        for other in others {
            other.close().await.unwrap();
        }
        assert_eq!(world.rows_of("recto_writers").await, 1);
        assert_eq!(world.rows_of("recto_intents").await, 0);
        let schema = format!("{PLAIN}{people}{PLAIN_VIEWS}");
        timeout(LONG, apply(&one, &schema)).await.unwrap().unwrap();
        assert_views_are_true(&one).await;
        assert_eq!(one.writer_metrics().last_pass.found_dead, 0);
    });
}

#[test]
fn adds_exact_views_during_concurrent_writes() {
    for seed in 0..20 {
        in_virtual_time(async {
            let world = World::new();
            let (one, _) = world.process(seed * 10, 0).await;
            one.apply(&parse(PLAIN)).await.unwrap();
            fill(&one, RECORDS).await;
            let mut writers = Vec::new();
            for number in 1..4 {
                let off_micros = i64::try_from(number).unwrap() * 600_000_000 - 1_200_000_000;
                let (process, _) = world.process(seed * 10 + number, off_micros).await;
                let random = Random::new(seed * 10 + number);
                writers.push(tokio::spawn(write_on(
                    process,
                    i32::try_from(number).unwrap(),
                    random,
                )));
            }
            sleep(Duration::from_secs(2)).await;
            let applied = one.apply(&parse(&schema())).await.unwrap();
            assert_eq!(applied.changes.len(), 4, "{applied:?}");
            for writer in writers {
                assert!(writer.await.unwrap() > 30, "they write on");
            }
            assert!(assert_views_are_true(&one).await > 0);
            let less = ApplyOptions::new()
                .remove("events.by_what")
                .remove("readings.by_hour");
            one.apply_with(&parse(PLAIN), &less).await.unwrap();
            assert_eq!(one.views().await.unwrap().len(), 0);
        });
    }
}

/// Stores and deletes records of one writer for half a minute. Returns the number of writes.
async fn write_on(recto: Recto, writer: i32, random: Random) -> u32 {
    let (events, readings) = (
        recto.dynamic("events").unwrap(),
        recto.dynamic("readings").unwrap(),
    );
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < LONG / 2 {
        // Let each writer use its own records. Concurrent puts and deletions of one record without
        // versions, by different clocks, may leave a superfluous view row.
        let number = 3 * i32::try_from(random.below(u64::from(RECORDS.unsigned_abs()))).unwrap() + writer - 1;
        match random.below(4) {
            0 => events.delete((number % 7, number)).await.map(drop).unwrap(),
            1 => readings
                .delete((number % 10, number / 10))
                .await
                .map(drop)
                .unwrap(),
            _ => put(&recto, number, done).await,
        }
        sleep(Duration::from_millis(random.below(300))).await;
        done += 1;
    }
    done.unsigned_abs()
}

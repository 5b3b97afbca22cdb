//! Tests of processes that lose their lease or registration, or end, while they write, recover and
//! delete. A process may write only while it has a lease. The tests use a store without
//! transactions, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use recto::{ApplyOptions, ErrorKind, LocalSession, Recto, Session};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::doors::{Door, Doors, World, in_virtual_time, until};
use super::plain::{self, PLAIN, PLAIN_VIEWS, assert_views_are_true};
use super::{event, record};
use crate::common::exact::assert_views_are_exact;
use crate::common::stores::parse;

const PEOPLE: &str = "[collection.people]\nfields = { id = \"int\", city = \"text\" }\nkey = [\"id\"]\n";
const BY_CITY: &str = "[collection.people.view.by_city]\npartition = [\"city\"]\n";
const RECORDS: i32 = 20;
/// Time that exceeds a lease, but not the time after which other processes regard a process as
/// dead.
const LAPSED: Duration = Duration::from_secs(18);
/// Time that suffices to detect that a process is dead, and to resolve its changes.
const LONG: Duration = Duration::from_secs(90);
/// Request timeout of a process whose requests the test delays for a long time.
const PATIENT: Duration = Duration::from_secs(60);

fn people() -> String {
    format!("{PEOPLE}{BY_CITY}")
}

async fn put(recto: &Recto, id: i32, city: &str) -> recto::Result<()> {
    let people = recto.dynamic("people").unwrap();
    let person = record(&people, &json!({ "id": id, "city": city }));
    people.put(&person).await.map(drop)
}

fn putting(recto: &Recto, id: i32, city: &'static str) -> JoinHandle<recto::Result<()>> {
    let recto = recto.clone();
    tokio::spawn(async move { put(&recto, id, city).await })
}

async fn city_of(recto: &Recto, id: i32) -> String {
    let people = recto.dynamic("people").unwrap();
    let person = people.get(id).await.unwrap().unwrap();
    person.to_json()["city"].as_str().unwrap().to_owned()
}

async fn put_many(recto: &Recto) {
    for id in 0..RECORDS {
        put(recto, id, "ulm").await.unwrap();
    }
}

/// Returns two processes with their connections. The first has declared `people` with a view, and
/// the second has stored some people.
async fn two(world: &World) -> (Recto, Arc<Doors>, Recto, Arc<Doors>) {
    let (one, doors) = world.process(1, 0).await;
    one.apply(&parse(&people())).await.unwrap();
    let (other, others_doors) = world.process(2, 0).await;
    put_many(&other).await;
    (one, doors, other, others_doors)
}

#[test]
fn a_change_waits_for_the_lease() {
    in_virtual_time(async {
        let world = World::new();
        let (one, doors) = world.process(1, 0).await;
        one.apply(&parse(&people())).await.unwrap();
        put_many(&one).await;
        doors.hold(Door::Registrations);
        sleep(LAPSED).await;
        assert!(!one.writer_metrics().has_lease);
        let mut changing = putting(&one, 1, "bonn");
        let waits = timeout(Duration::from_secs(2), &mut changing).await;
        assert!(waits.is_err(), "{waits:?}");
        doors.open();
        changing.await.unwrap().unwrap();
        assert_eq!(one.writer_metrics().lost, 0);
        assert_views_are_exact(&one, "people").await;
        // While renewals of the lease are delayed, a change must wait for the lease until its
        // timeout.
        doors.hold(Door::Registrations);
        sleep(LAPSED).await;
        let began = Instant::now();
        let error = put(&one, 1, "jena").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(began.elapsed().as_secs(), 10);
        // If too few replicas are alive for a renewal, the change must fail immediately.
        doors.open();
        doors.fail(Door::Registrations);
        sleep(LAPSED).await;
        let began = Instant::now();
        let error = put(&one, 1, "jena").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        doors.open();
        sleep(LAPSED).await;
        put(&one, 1, "jena").await.unwrap();
        assert_eq!(assert_views_are_exact(&one, "people").await, RECORDS as usize);
    });
}

#[test]
fn applies_a_waiting_change_under_the_next_registration() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(&people())).await.unwrap();
        put(&one, 0, "ulm").await.unwrap();
        let (other, doors) = world.process(2, 0).await;
        put_many(&other).await;
        doors.hold(Door::Registrations);
        sleep(LAPSED).await;
        until(|| one.writer_metrics().found_dead == 1).await;
        let changing = putting(&other, 1, "bonn");
        sleep(Duration::from_secs(1)).await;
        doors.open();
        changing.await.unwrap().unwrap();
        assert_eq!(other.writer_metrics().lost, 1);
        assert_views_are_exact(&one, "people").await;
    });
}

/// Starts a change whose read is delayed until the lease of its process has expired. The read then
/// passes, but renewals of the lease remain delayed.
async fn changing_without_a_lease(
    world: &World,
    seed: u64,
) -> (Recto, Arc<Doors>, JoinHandle<recto::Result<()>>) {
    let (other, doors) = world.process_within(seed, PATIENT).await;
    put_many(&other).await;
    doors.hold(Door::Registrations);
    sleep(Duration::from_secs(8)).await;
    doors.hold(Door::Reads("people"));
    let changing = putting(&other, 1, "bonn");
    sleep(LAPSED).await;
    assert!(!other.writer_metrics().has_lease);
    assert_eq!(other.writer_metrics().intents, 1);
    doors.open();
    doors.hold(Door::Registrations);
    sleep(Duration::from_secs(2)).await;
    assert!(!changing.is_finished(), "{:?}", changing.await);
    (other, doors, changing)
}

#[test]
fn a_change_whose_lease_ends_before_it_is_decided_waits_for_it() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(&people())).await.unwrap();
        let (other, doors, changing) = changing_without_a_lease(&world, 2).await;
        // Another process changes the same record.
        put(&one, 1, "jena").await.unwrap();
        doors.open();
        changing.await.unwrap().unwrap();
        assert_eq!(other.writer_metrics().lost, 0);
        assert_eq!(city_of(&one, 1).await, "bonn");
        assert_eq!(assert_views_are_exact(&one, "people").await, RECORDS as usize);
    });
}

#[test]
fn applies_an_undecided_change_after_being_found_dead() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(&people())).await.unwrap();
        put(&one, 0, "ulm").await.unwrap();
        let (other, doors, changing) = changing_without_a_lease(&world, 2).await;
        until(|| one.writer_metrics().found_dead == 1).await;
        doors.open();
        changing.await.unwrap().unwrap();
        assert_eq!(other.writer_metrics().lost, 1);
        assert_eq!(city_of(&one, 1).await, "bonn");
        assert_eq!(assert_views_are_exact(&one, "people").await, RECORDS as usize);
    });
}

#[test]
fn reports_a_timeout_if_the_lease_is_not_renewed() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(&people())).await.unwrap();
        let (_other, doors, changing) = changing_without_a_lease(&world, 2).await;
        let error = timeout(PATIENT, changing).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        doors.open();
        assert_eq!(city_of(&one, 1).await, "ulm");
        // If too few replicas are alive for a renewal, the change must fail immediately.
        let (_third, doors, changing) = changing_without_a_lease(&world, 3).await;
        doors.open();
        doors.fail(Door::Registrations);
        let soon = Duration::from_secs(1);
        let error = timeout(soon, changing).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        doors.open();
        assert_eq!(city_of(&one, 1).await, "ulm");
    });
}

#[test]
fn delays_a_plain_deletion_until_the_lease_is_renewed() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(&format!("{PLAIN}{PLAIN_VIEWS}"))).await.unwrap();
        let (other, doors) = world.process_within(2, PATIENT).await;
        plain::fill(&other, RECORDS).await;
        doors.hold(Door::Registrations);
        sleep(Duration::from_secs(8)).await;
        doors.hold(Door::Reads("events"));
        let deleting = other.clone();
        let deleted = tokio::spawn(async move {
            let events = deleting.dynamic("events").unwrap();
            events.delete((3, 10)).await
        });
        sleep(LAPSED).await;
        doors.open();
        doors.hold(Door::Registrations);
        sleep(Duration::from_secs(2)).await;
        assert!(!deleted.is_finished(), "{:?}", deleted.await);
        doors.open();
        deleted.await.unwrap().unwrap();
        assert_eq!(other.writer_metrics().lost, 0);
        assert_views_are_true(&one).await;
    });
}

#[test]
fn stays_registered_until_a_plain_write_finishes() {
    in_virtual_time(async {
        let world = World::new();
        let (one, _) = world.process(1, 0).await;
        one.apply(&parse(PLAIN)).await.unwrap();
        let (other, doors) = world.process(2, 0).await;
        plain::fill(&other, RECORDS).await;
        doors.hold(Door::Registrations);
        sleep(LAPSED).await;
        // While the write waits for the lease, the process begins to close the store.
        let writing = other.clone();
        let written = tokio::spawn(async move {
            let events = writing.dynamic("events").unwrap();
            events.put(&record(&events, &event(RECORDS))).await
        });
        sleep(Duration::from_secs(1)).await;
        let ending = other.clone();
        let ended = tokio::spawn(async move { ending.close().await.unwrap() });
        sleep(Duration::from_secs(1)).await;
        doors.open();
        doors.hold(Door::Writes);
        sleep(Duration::from_secs(5)).await;
        assert!(!written.is_finished());
        assert_eq!(world.rows_of("recto_writers").await, 1, "it is still registered");
        doors.open();
        written.await.unwrap().unwrap();
        ended.await.unwrap();
        assert_eq!(world.rows_of("recto_writers").await, 0);
        let schema = format!("{PLAIN}{PLAIN_VIEWS}");
        timeout(LONG, one.apply(&parse(&schema))).await.unwrap().unwrap();
        assert_views_are_true(&one).await;
    });
}

#[test]
fn does_not_wait_for_intents_of_a_replaced_collection() {
    let by_two = "[collection.people]\nfields = { tenant = \"int\", id = \"int\", city = \"text\" }\n\
                  key = [\"tenant\", \"id\"]\n";
    let by_bigint = PEOPLE.replace("id = \"int\"", "id = \"bigint\"");
    let (of_two, of_bigint) = (
        json!({ "tenant": 1, "id": 1, "city": "ulm" }),
        json!({ "id": 1, "city": "ulm" }),
    );
    for (anew, person) in [(by_two, of_two), (&*by_bigint, of_bigint)] {
        in_virtual_time(async {
            let world = World::new();
            let (one, _) = world.process(1, 0).await;
            one.apply(&parse(PEOPLE)).await.unwrap();
            let (other, doors) = world.process(2, 0).await;
            put_many(&other).await;
            doors.gate.open(false);
            let remove = ApplyOptions::new().remove("people");
            one.apply_with(&parse(PLAIN), &remove).await.unwrap();
            one.apply(&parse(&format!("{PLAIN}{anew}"))).await.unwrap();
            assert_eq!(one.writer_metrics().found_dead, 0);
            assert!(world.rows_of("recto_intents").await > 0);
            let people = one.dynamic("people").unwrap();
            people.put(&record(&people, &person)).await.unwrap();
            let views = parse(&format!("{PLAIN}{anew}{BY_CITY}"));
            timeout(LONG, one.apply(&views)).await.unwrap().unwrap();
            let pass = one.writer_metrics().last_pass;
            assert_eq!((pass.unresolved, pass.waiting), (0, 1), "{pass:?}");
            assert_eq!(assert_views_are_exact(&one, "people").await, 1);
        });
    }
}

/// Starts a recovery (completion of dead processes' changes) that continues after errors. Returns
/// its task, and two counters: its passes and its errors.
fn recovering(recto: &Recto) -> (JoinHandle<()>, Arc<[AtomicUsize; 2]>) {
    let counts = Arc::<[AtomicUsize; 2]>::default();
    let (session, counted) = (LocalSession::new(recto.clone()), Arc::clone(&counts));
    let recovering = tokio::spawn(async move {
        let [looks, failures] = &*counted;
        let goes_on = |_| looks.fetch_add(1, Ordering::Relaxed) < usize::MAX;
        let bears = |error: recto::Error| {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            failures.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let pass = session.tools().unwrap().recover(&goes_on, &bears).await;
        panic!("it ended: {pass:?}");
    });
    (recovering, counts)
}

#[test]
fn a_recovering_process_goes_on_when_it_was_found_dead_itself() {
    in_virtual_time(async {
        let world = World::new();
        let (one, doors, other, _) = two(&world).await;
        let (recovering, _) = recovering(&one);
        sleep(LAPSED).await;
        doors.gate.open(false);
        until(|| other.writer_metrics().found_dead == 1).await;
        doors.gate.open(true);
        sleep(LAPSED).await;
        other.close().await.unwrap();
        assert_eq!(one.writer_metrics().lost, 1);
        // Process 3 is now the only other process, so only the recovering process can find it dead.
        let (last, doors) = world.process(3, 0).await;
        put_many(&last).await;
        doors.gate.open(false);
        sleep(LONG).await;
        assert!(!recovering.is_finished());
        let metrics = one.writer_metrics();
        let pass = (metrics.found_dead, metrics.last_pass.unresolved);
        assert_eq!(pass, (1, 0), "{metrics:?}");
        assert!(metrics.resolved > 0, "{metrics:?}");
        recovering.abort();
    });
}

#[test]
fn a_recovering_process_goes_on_when_the_store_fails_for_a_time() {
    for fails in [Door::Registrations, Door::Reads("recto_writers")] {
        in_virtual_time(async {
            let world = World::new();
            let (one, doors, _other, others_doors) = two(&world).await;
            let (recovering, counts) = recovering(&one);
            sleep(LAPSED).await;
            others_doors.gate.open(false);
            sleep(LAPSED).await;
            doors.fail(fails);
            sleep(LONG).await;
            assert!(!recovering.is_finished());
            assert!(counts[1].load(Ordering::Relaxed) > 2, "{counts:?}");
            let error = one.recover(|_| true).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert_eq!(one.writer_metrics().found_dead, 0);
            doors.open();
            sleep(LAPSED).await;
            let metrics = one.writer_metrics();
            assert_eq!(metrics.last_pass.unresolved, 0, "{metrics:?}");
            assert_eq!(metrics.found_dead, 1, "{metrics:?}");
            recovering.abort();
        });
    }
}

#[test]
fn a_plain_write_that_was_applied_is_not_said_to_have_failed() {
    in_virtual_time(async {
        let world = World::new();
        let (before, one, other, doors) = plain::two_with_a_view(&world, RECORDS).await;
        doors.hold(Door::Writes);
        let deleting = other.clone();
        let deleted = tokio::spawn(async move {
            let events = deleting.dynamic("events").unwrap();
            events.delete((3, 10)).await
        });
        sleep(Duration::from_secs(1)).await;
        doors.gate.open(false);
        let after = parse(&(before + PLAIN_VIEWS));
        timeout(2 * LONG, one.apply(&after)).await.unwrap().unwrap();
        doors.open();
        doors.fail(Door::Reads("events"));
        doors.gate.open(true);
        let error = deleted.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        doors.open();
        let events = other.dynamic("events").unwrap();
        assert_eq!(events.get((3, 10)).await.unwrap(), None);
    });
}

#[test]
fn keeps_the_lease_while_deletion_of_intents_stalls() {
    for stands in [Door::Writes, Door::Reads("recto_catalog")] {
        in_virtual_time(async {
            let world = World::new();
            let (one, _) = world.process(1, 0).await;
            one.apply(&parse(&people())).await.unwrap();
            put(&one, 0, "ulm").await.unwrap();
            let (other, doors) = world.process(2, 0).await;
            put_many(&other).await;
            sleep(Duration::from_secs(2)).await;
            doors.hold(stands);
            for _ in 0..LONG.as_secs() {
                sleep(Duration::from_secs(1)).await;
                assert!(other.writer_metrics().has_lease);
            }
            doors.open();
            assert_eq!(
                (one.writer_metrics().found_dead, other.writer_metrics().lost),
                (0, 0)
            );
            sleep(LAPSED).await;
            assert_eq!(world.rows_of("recto_intents").await, 0);
        });
    }
}

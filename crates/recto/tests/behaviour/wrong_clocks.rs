//! Tests of processes with a wrong clock. Such a process must delete no data of other processes,
//! must not use its clock for write timestamps, and must report the error. On Cassandra, Recto
//! compares its clock with the clocks of the nodes. For an embedded store, it compares its clock
//! with the time that earlier processes recorded.

use std::time::Duration;

use recto::queues::{NewMessage, Queue, QueueOptions, Receive};
use recto::session::{PageRequest, Pages, RebalanceRequest, Session};
use recto::store::{ClockState, ClockStatus};
use recto::{DynamicRecord, Environment, ErrorKind, LocalSession, OpenOptions, Recto};
use serde_json::json;

use crate::common::clocks::{Clocks, Standing};
use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, Suite, run};

static TESTS: Suite = Suite::new(module_path!(), 9);

const SECOND_MICROS: i64 = 1_000_000;
const DAY_SECONDS: u32 = 86_400;
const DAY_MICROS: i64 = 86_400 * SECOND_MICROS;
const HOUR_MILLIS: i64 = 3_600_000;
const DAY_MILLIS: i64 = 24 * HOUR_MILLIS;
/// Start of the tests: a time in 2026, in milliseconds since 1970.
const START_MILLIS: i64 = 1_767_225_600_000;

const SCHEMA: &str = r#"
[collection.readings]
fields = { at = "timestamp", id = "int" }
key = ["at", "id"]
partition = []
order = ["at"]
writes = "append"
bucket = { time = "at", width = "1 day", keep = "90 days" }
"#;

async fn open_ahead(store: &Fresh, micros: i64) -> Recto {
    open_by(store, Clocks::off_by(micros).environment()).await
}

async fn open_by(store: &Fresh, environment: Environment) -> Recto {
    store.open_with(OpenOptions::new().environment(environment)).await
}

/// Creates a queue with three messages and the given retention time.
async fn make_queue(recto: &Recto, retention_seconds: u32) -> Queue {
    let options = QueueOptions {
        retention_seconds: Some(retention_seconds),
        ..QueueOptions::default()
    };
    let queues = recto.queues().await.unwrap();
    let jobs = queues.create("jobs", options).await.unwrap();
    for body in ["a", "b", "c"] {
        jobs.send(NewMessage::new(body)).await.unwrap();
    }
    jobs
}

async fn queue_of(recto: &Recto) -> Queue {
    recto.queues().await.unwrap().get("jobs").await.unwrap()
}

/// Returns the notes that the command `recto check` prints.
async fn checked(recto: &Recto) -> String {
    let session = LocalSession::new(recto.clone());
    let outcome = session.tools().unwrap().check(&|_| {}).await.unwrap();
    outcome.notes.join("\n")
}

fn ahead_seconds(status: ClockStatus) -> i64 {
    status.ahead_micros.unwrap() / SECOND_MICROS
}

#[test]
fn expires_no_messages_of_others() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Cassandra);
        let right = store.open().await;
        let jobs = make_queue(&right, 120).await;
        let ahead = open_ahead(&store, 180 * SECOND_MICROS).await;
        let jobs_ahead = queue_of(&ahead).await;
        let received = jobs_ahead.receive(Receive::up_to(1)).await.unwrap();
        assert_eq!(received.len(), 1, "it is not expired by the clock of the nodes");
        // Queues and buckets share the clock guard of the store, so the guard must also know that
        // the clock is wrong.
        let guard = ahead.store().clock_guard().unwrap();
        assert_eq!(guard.status(None).state, ClockState::AheadOfNodes);
        // Maintenance of queues runs every 30 seconds. Wait until it has run.
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(jobs.receive(Receive::up_to(10)).await.unwrap().len(), 2);
        let status = jobs.stats().await.unwrap();
        assert_eq!(status.messages, 3, "{status:?}");
        ahead.close().await.unwrap();
        right.close().await.unwrap();
    });
}

#[test]
fn drops_no_records_of_others() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Cassandra);
        let right = store.open().await;
        right.apply(&parse(SCHEMA)).await.unwrap();
        let readings = right.dynamic("readings").unwrap();
        let definition = readings.definition();
        for day in 0..5_i32 {
            let at = jiff::Timestamp::now() - Duration::from_secs(86_400 * u64::from(day.unsigned_abs()));
            let record = json!({ "at": at.round(jiff::Unit::Second).unwrap().to_string(), "id": day });
            let record = DynamicRecord::from_json(definition.clone(), record.as_object().unwrap()).unwrap();
            readings.put(&record).await.unwrap();
        }
        let ahead = open_ahead(&store, 365 * DAY_MICROS).await;
        let session = LocalSession::new(ahead);
        let tools = session.tools().unwrap();
        let request = RebalanceRequest::default();
        tools
            .rebalance_buckets("readings", &request, &|_| {})
            .await
            .unwrap();
        let page = LocalSession::new(right.clone());
        let page = page.page("readings", &PageRequest::default()).await.unwrap();
        assert_eq!(page.records.len(), 5);
        right.close().await.unwrap();
    });
}

#[test]
fn refuses_writes_that_a_wrong_clock_would_order_wrongly() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Cassandra);
        let right = store.open().await;
        right.apply(&parse(SCHEMA)).await.unwrap();
        let definition = right.dynamic("readings").unwrap().definition();
        let record = |id: i32| {
            let at = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap();
            let record = json!({ "at": at.to_string(), "id": id });
            DynamicRecord::from_json(definition.clone(), record.as_object().unwrap()).unwrap()
        };
        // On a slow machine, Recto may measure a difference that is half a second too small, so add
        // half a second.
        let wrong = open_ahead(&store, 180 * SECOND_MICROS + SECOND_MICROS / 2).await;
        let readings = wrong.dynamic("readings").unwrap();
        for outcome in [
            readings.put(&record(1)).await.map(drop),
            readings.delete((jiff::Timestamp::now(), 1)).await.map(drop),
        ] {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            let text = error.to_string();
            assert!(
                text.contains("nothing was written: the clock of this machine is 180."),
                "{text}"
            );
            assert!(error.hint().unwrap().contains("NTP"));
        }
        wrong.close().await.unwrap();
        // A difference of 3 s is normal between machines with a time service, so the put must
        // succeed.
        let near = open_ahead(&store, 3 * SECOND_MICROS).await;
        near.dynamic("readings").unwrap().put(&record(2)).await.unwrap();
        near.close().await.unwrap();
        let page = LocalSession::new(right.clone());
        let page = page.page("readings", &PageRequest::default()).await.unwrap();
        assert_eq!(page.records.len(), 1);
        right.close().await.unwrap();
    });
}

#[test]
fn tells_how_far_the_clock_differs_from_the_nodes() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Cassandra);
        for (seconds, state, note) in [
            (0, ClockState::Agrees, None),
            (
                3,
                ClockState::Differs,
                Some("ahead of the clock of a node; synchronize the clocks"),
            ),
            (-3_600, ClockState::Differs, Some("behind the clock of a node")),
            (
                180,
                ClockState::AheadOfNodes,
                Some("this process deletes no expired data, and rejects writes"),
            ),
        ] {
            let recto = open_ahead(&store, seconds * SECOND_MICROS).await;
            assert_eq!(recto.clock_status(), ClockStatus::default());
            let noted = checked(&recto).await;
            assert_eq!(noted.contains("clock"), note.is_some(), "{noted}");
            assert!(noted.contains(note.unwrap_or_default()), "{noted}");
            let status = recto.clock_status();
            assert_eq!(status.state, state);
            assert!((ahead_seconds(status) - seconds).abs() < 2, "{status:?}");
            recto.close().await.unwrap();
        }
    });
}

#[test]
fn compares_clocks_within_the_time_of_the_caller() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let recto = Fresh::new(Kind::Cassandra).open().await;
        let guard = recto.store().clock_guard().unwrap();
        guard.compare(Duration::ZERO).await;
        assert_eq!(guard.status(None).state, ClockState::NotCompared);
        assert!(!guard.allows(Duration::MAX), "no node was asked");
        assert!(recto.confirm_clock().await.is_err(), "the nodes are the evidence");
        recto.close().await.unwrap();
    });
}

#[test]
fn embedded_expires_nothing_a_year_ahead_until_confirmed() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Embedded);
        let right = store.open().await;
        make_queue(&right, 120).await;
        assert_eq!(right.check_clock().await.state, ClockState::Agrees);
        right.close().await.unwrap();
        // A wrong clock must not confirm itself by the times that it recorded before a restart.
        for body in [b"a", b"b"] {
            let ahead = open_ahead(&store, 365 * DAY_MICROS).await;
            let jobs = queue_of(&ahead).await;
            let received = jobs.receive(Receive::up_to(1)).await.unwrap();
            assert_eq!(received[0].body, body);
            jobs.ack(&[received[0].receipt]).await.unwrap();
            let noted = checked(&ahead).await;
            for said in [
                "365 days ahead",
                "less than 3650 days delete no old data",
                "confirm-clock",
            ] {
                assert!(noted.contains(said), "{said}: {noted}");
            }
            assert_eq!(ahead.clock_status().state, ClockState::AheadOfRecord);
            ahead.close().await.unwrap();
        }
        let ahead = open_ahead(&store, 365 * DAY_MICROS).await;
        let jobs = queue_of(&ahead).await;
        assert_eq!(jobs.stats().await.unwrap().messages, 1);
        let session = LocalSession::new(ahead.clone());
        let said = session.queues().unwrap().confirm_clock().await.unwrap();
        assert!(said.starts_with("20"), "{said}");
        assert_eq!(ahead.clock_status().state, ClockState::Agrees);
        assert_eq!(jobs.receive(Receive::up_to(1)).await.unwrap(), []);
        assert_eq!(jobs.stats().await.unwrap().messages, 0);
        ahead.close().await.unwrap();
        // After the wrong clock was confirmed, the right clock appears to be behind. It then only
        // deletes too late, and it can be confirmed again.
        let right = store.open().await;
        assert_eq!(right.check_clock().await.state, ClockState::Agrees);
        right.confirm_clock().await.unwrap();
        right.close().await.unwrap();
        let ahead = open_ahead(&store, 365 * DAY_MICROS).await;
        assert_eq!(ahead.check_clock().await.state, ClockState::AheadOfRecord);
        ahead.close().await.unwrap();
    });
}

#[test]
fn embedded_goes_on_when_the_clock_is_set_right() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Embedded);
        let clock = Standing::at(START_MILLIS);
        let recto = open_by(&store, clock.environment()).await;
        let jobs = make_queue(&recto, 120).await;
        clock.put(START_MILLIS + 365 * DAY_MILLIS);
        let received = jobs.receive(Receive::up_to(1)).await.unwrap();
        assert_eq!(received[0].body, b"a");
        assert_eq!(recto.check_clock().await.state, ClockState::AheadOfRecord);
        clock.put(START_MILLIS + HOUR_MILLIS);
        assert_eq!(recto.check_clock().await.state, ClockState::Agrees);
        assert_eq!(jobs.receive(Receive::up_to(3)).await.unwrap(), []);
        recto.close().await.unwrap();
    });
}

#[test]
fn embedded_asks_once_after_it_was_closed_for_longer() {
    let _scope = Scope::new(&TESTS);
    run(async {
        for (retention_days, closed_days) in [(2, 2), (60, 7)] {
            let store = Fresh::new(Kind::Embedded);
            let clock = Standing::at(START_MILLIS);
            let recto = open_by(&store, clock.environment()).await;
            make_queue(&recto, retention_days * DAY_SECONDS).await;
            recto.close().await.unwrap();
            let mut now = START_MILLIS;
            // Recto renews the recorded time whenever the store is opened, so that short times do
            // not add up.
            for (closed, state) in [
                (23 * HOUR_MILLIS, ClockState::Agrees),
                (23 * HOUR_MILLIS, ClockState::Agrees),
                (closed_days * DAY_MILLIS, ClockState::AheadOfRecord),
                (HOUR_MILLIS, ClockState::AheadOfRecord),
            ] {
                now += closed;
                clock.put(now);
                let recto = open_by(&store, clock.environment()).await;
                queue_of(&recto).await;
                assert_eq!(recto.check_clock().await.state, state);
                recto.close().await.unwrap();
            }
            let recto = open_by(&store, clock.environment()).await;
            recto.confirm_clock().await.unwrap();
            recto.close().await.unwrap();
            let recto = open_by(&store, clock.environment()).await;
            assert_eq!(recto.check_clock().await.state, ClockState::Agrees);
            recto.close().await.unwrap();
        }
    });
}

#[test]
fn embedded_queues_with_a_long_retention_go_on() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let store = Fresh::new(Kind::Embedded);
        let clock = Standing::at(START_MILLIS);
        let recto = open_by(&store, clock.environment()).await;
        make_queue(&recto, 60 * DAY_SECONDS).await;
        recto.close().await.unwrap();
        for day in [5, 10, 15] {
            clock.put(START_MILLIS + day * DAY_MILLIS);
            let recto = open_by(&store, clock.environment()).await;
            queue_of(&recto).await;
            assert_eq!(recto.check_clock().await.state, ClockState::Agrees);
            recto.close().await.unwrap();
        }
    });
}

//! Tests that observe requests to the store, with a test store that can count, fail and wait. A
//! query reads nothing before the caller polls it, and a page whose time ends keeps the rows read
//! so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use recto::schema::Schema;
use recto::store::Store;
use recto::store::faults::{FaultRates, FaultyStore};
use recto::store::memory::MemoryStore;
use recto::{DynamicRecord, Environment, ErrorKind, OpenOptions, Record as _, Recto, Stop, Value};

const SCHEMA: &str = r#"
[collection.events]
fields = { stream = "int", at = "int", kind = "int" }
key = ["stream", "at"]
partition = ["stream"]
order = ["at"]
writes = "append"
"#;
const ROWS: i32 = 3_000;

/// Returns a Recto with stored rows, and a handle with which the test makes the store fail.
async fn store() -> (Recto, FaultyStore) {
    let memory = MemoryStore::new(Environment::system());
    let faulty = FaultyStore::new(Arc::new(memory), 1, FaultRates::NONE);
    let store: Arc<dyn Store> = Arc::new(faulty.clone());
    let recto = Recto::with_store(store, OpenOptions::new()).await.unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    let events = recto.dynamic("events").unwrap();
    let definition = Arc::clone(recto.schema().collection("events").unwrap());
    let mut batch = recto.batch();
    for at in 0..ROWS {
        let mut record = DynamicRecord::new(Arc::clone(&definition));
        for (field, value) in [("stream", 1), ("at", at), ("kind", at % 100)] {
            record.set(field, Some(Value::Int(value))).unwrap();
        }
        batch.put(&events, &record).unwrap();
    }
    batch.commit().await.unwrap();
    (recto, faulty)
}

#[tokio::test]
async fn a_stream_sends_nothing_until_it_is_polled() {
    let (recto, faulty) = store().await;
    let events = recto.dynamic("events").unwrap();
    // Every call to the store fails and is recorded. No recorded fault therefore means that there
    // was no call.
    faulty.set_rates(FaultRates {
        fail: 1.0,
        ..FaultRates::NONE
    });
    let query = events.query().filter("stream = 1").page_size(10);
    let mut stream = Box::pin(query.clone().stream());
    assert!(faulty.faults().is_empty());
    assert_eq!(
        stream.next().await.unwrap().unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(faulty.faults().len(), 1);
    assert!(stream.next().await.is_none(), "an error ends it");

    // The stream must not read a page before the caller requests its first row.
    faulty.set_rates(FaultRates::NONE);
    let mut stream = Box::pin(query.stream());
    let first: Vec<DynamicRecord> = stream.by_ref().take(10).try_collect().await.unwrap();
    assert_eq!(first.len(), 10);
    faulty.set_rates(FaultRates {
        fail: 1.0,
        ..FaultRates::NONE
    });
    assert_eq!(faulty.faults().len(), 1);
    assert!(stream.next().await.unwrap().is_err());
}

#[tokio::test]
async fn keeps_the_rows_of_a_page_that_runs_out_of_time() {
    let (recto, faulty) = store().await;
    let events = recto.dynamic("events").unwrap();
    let query = events
        .query()
        .filter("stream = 1 AND kind = 7")
        .allow_filter_scan()
        .page_size(20);
    let expected = query.clone().await.unwrap();
    assert_eq!((expected.len(), expected.stop()), (20, None));

    faulty.set_rates(FaultRates {
        delay: 1.0,
        max_delay: Duration::from_millis(20),
        ..FaultRates::NONE
    });
    let mut found: Vec<DynamicRecord> = Vec::new();
    let mut stops = 0;
    let mut next = query.clone().timeout(Duration::from_millis(50));
    while found.len() < 20 {
        let page = match next.await {
            Ok(page) => page,
            // The first read of the page took too long, so request the same page again.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Timeout);
                next = resume(&query, &found, &expected);
                continue;
            }
        };
        stops += usize::from(page.stop() == Some(Stop::Time));
        found.extend(page.items().iter().cloned());
        next = match page.next_cursor() {
            Some(cursor) => query
                .clone()
                .timeout(Duration::from_millis(50))
                .page_token(cursor),
            None => break,
        };
    }
    assert!(stops > 0, "no page ran out of time");
    assert_eq!(&found[..20], expected.items());
}

/// Returns the query for the page after the rows in `found`.
fn resume(
    query: &recto::PageQuery<DynamicRecord>,
    found: &[DynamicRecord],
    expected: &recto::Page<DynamicRecord>,
) -> recto::PageQuery<DynamicRecord> {
    let query = query.clone().timeout(Duration::from_millis(50));
    match found.len() {
        0 => query,
        count => query.after(expected.cursor(count - 1)),
    }
}

/// Checks that a long page yields to other tasks, even though the test store never waits and
/// therefore never yields.
#[tokio::test]
async fn a_long_page_lets_others_have_their_turn() {
    let (recto, _) = store().await;
    let events = recto.dynamic("events").unwrap();
    let turns = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&turns);
    let ticking = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let none = events
        .query()
        .filter("stream = 1 AND kind = 100")
        .allow_filter_scan();
    let page = none.await.unwrap();
    assert_eq!(page.cost().rows_read, u64::from(ROWS.unsigned_abs()));
    assert!(page.is_empty());
    let turns = turns.load(Ordering::Relaxed);
    assert!((10..20).contains(&turns), "{turns}");
    ticking.abort();
}

/// Checks a batch whose first commit had an unknown outcome:
///
/// - A repeated commit has a known outcome, whether the first commit was applied or lost.
/// - The repeated commit uses the write timestamps of the first commit, so later writes of other
///   clients win.
/// - If the program replaced a change of the batch before it repeated the commit, the new change
///   has a later timestamp.
#[tokio::test(start_paused = true)]
async fn a_batch_of_unknown_outcome_is_settled_later() {
    #[derive(Debug, Clone, PartialEq, recto::Record)]
    #[record(collection = "readings", key = ["sensor"], writes = "overwrite")]
    struct Reading {
        sensor: i32,
        value: i32,
    }
    let reading = |sensor, value| Reading { sensor, value };
    let unanswered = FaultRates {
        unanswered: 1.0,
        ..FaultRates::NONE
    };
    let lost = FaultRates {
        lose: 1.0,
        ..FaultRates::NONE
    };
    for (rates, is_applied) in [(unanswered, true), (lost, false)] {
        let memory = MemoryStore::new(Environment::system());
        let faulty = FaultyStore::new(Arc::new(memory), 1, FaultRates::NONE);
        let store: Arc<dyn Store> = Arc::new(faulty.clone());
        let recto = Recto::with_store(store, OpenOptions::new()).await.unwrap();
        recto
            .apply(&recto::schema_of([Reading::collection()]))
            .await
            .unwrap();
        let readings = recto.collection::<Reading>().unwrap();
        let mut batch = recto.batch();
        for sensor in 0..3 {
            batch.put(&readings, &reading(sensor, 1)).unwrap();
        }
        faulty.set_rates(rates);
        let error = batch.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        assert_eq!(faulty.faults().len(), 3, "{}", faulty.report());

        faulty.set_rates(FaultRates::NONE);
        assert_eq!(readings.get(1).await.unwrap().is_some(), is_applied);
        readings.put(&reading(1, 2)).await.unwrap();
        readings.put(&reading(2, 2)).await.unwrap();
        batch.put(&readings, &reading(2, 3)).unwrap();
        assert_eq!((batch.len(), batch.repeated()), (4, 1));
        batch.commit().await.unwrap();
        assert!(batch.is_empty());
        for (sensor, value) in [(0, 1), (1, 2), (2, 3)] {
            assert_eq!(readings.get(sensor).await.unwrap(), Some(reading(sensor, value)));
        }
    }
}

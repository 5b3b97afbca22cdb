//! Tests of views that are added while other processes write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use recto::Recto;
use recto_testkit::generate;

use super::{
    BASE, Fresh, Scope, TESTS, assert_all_is_well, embedded, event, fill, person, plain, record, with_views,
};
use crate::common::run;
use crate::common::stores::parse;

const RECORDS: i32 = 30_000;
/// Number of records in a long run: as many as the demo has flights.
const MANY_RECORDS: i32 = 336_776;
const WRITERS: u64 = 6;
const PLAIN_RECORDS: i32 = 5_000;
/// Pause of a writer between two changes, so that the schema change gets enough processor time.
const PAUSE: Duration = Duration::from_millis(5);
const PLAIN_WRITERS: u64 = 3;

fn is_long() -> bool {
    std::env::var("RECTO_TEST_SCALE").is_ok_and(|scale| scale != "1")
}

/// Stores, updates and deletes records until `stop` is set. Returns the number of changes.
async fn write(recto: Recto, writer: u64, records: i32, stop: Arc<AtomicBool>) -> u64 {
    let (events, people) = (recto.dynamic("events").unwrap(), recto.dynamic("people").unwrap());
    let mut random = generate::rng(writer + 1);
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let number = i32::try_from(random.u64(0..u64::from(records.unsigned_abs()) * 2)).unwrap();
        match random.u64(0..5) {
            0 => {
                let gone = people.delete(number).await;
                gone.unwrap();
            }
            1 => events.delete((number % 7, number)).await.map(drop).unwrap(),
            2 => events
                .put(&record(&events, &event(number)))
                .await
                .map(drop)
                .unwrap(),
            _ => {
                let mut person = person(number);
                person["city"] = format!("c{}", random.u64(0..9)).into();
                people.put(&record(&people, &person)).await.map(drop).unwrap();
            }
        }
        done += 1;
        tokio::time::sleep(PAUSE).await;
    }
    done
}

/// Stores and deletes records without versions, of one writer, until `stop` is set. Returns the
/// number of writes.
async fn write_plainly(recto: Recto, writer: u64, stop: Arc<AtomicBool>) -> u64 {
    let (events, readings) = (
        recto.dynamic("events").unwrap(),
        recto.dynamic("readings").unwrap(),
    );
    let mut random = generate::rng(writer + 1);
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let number = random.u64(0..u64::from(PLAIN_RECORDS.unsigned_abs())) * PLAIN_WRITERS + writer;
        let number = i32::try_from(number).unwrap();
        match random.u64(0..4) {
            0 => events.delete((number % 7, number)).await.map(drop).unwrap(),
            1 => readings
                .delete((number % 10, number / 10))
                .await
                .map(drop)
                .unwrap(),
            _ => plain::put(&recto, number, number).await,
        }
        done += 1;
        tokio::time::sleep(PAUSE).await;
    }
    done
}

/// Checks that views of records without versions can be added while other processes write. Each
/// writer is a process that opened the store with the earlier schema.
pub(crate) async fn plain_views_are_added_while_others_write(fresh: &Fresh) {
    let recto = fresh.open().await;
    recto.apply(&parse(plain::PLAIN)).await.unwrap();
    plain::fill(&recto, PLAIN_RECORDS).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..PLAIN_WRITERS {
        let process = fresh.open().await;
        writers.push(tokio::spawn(write_plainly(process, writer, Arc::clone(&stop))));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    recto.apply(&parse(&plain::schema())).await.unwrap();
    println!(
        "two views of {PLAIN_RECORDS} plain records each in {:?}",
        began.elapsed()
    );
    stop.store(true, Ordering::Relaxed);
    let mut done = 0;
    for writer in writers {
        done += writer.await.unwrap();
    }
    println!("{done} writes meanwhile");
    assert!(done > 100);
    assert!(plain::assert_views_are_true(&recto).await > 0);
}

#[test]
fn views_are_added_changed_and_dropped_while_others_write() {
    let _scope = Scope::new(&TESTS);
    let records = if is_long() { MANY_RECORDS } else { RECORDS };
    run(async {
        let recto = embedded().await;
        recto.apply(&parse(BASE)).await.unwrap();
        fill(&recto, records).await;
        let stop = Arc::new(AtomicBool::new(false));
        let writers =
            (0..WRITERS).map(|writer| tokio::spawn(write(recto.clone(), writer, records, Arc::clone(&stop))));
        let writers: Vec<_> = writers.collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        let told = AtomicU64::new(0);
        let session = recto::LocalSession::new(recto.clone());
        let tools = recto::Session::tools(&session).unwrap();
        let options = recto::ApplyOptions::new();
        let tell = |at: recto::session::ViewProgress| {
            told.fetch_max(at.rows, Ordering::Relaxed);
        };
        tools.apply(&with_views(), &options, &tell).await.unwrap();
        println!(
            "{records} records filled into three views in {:?}",
            began.elapsed()
        );
        assert!(told.load(Ordering::Relaxed) >= u64::from(records.unsigned_abs()));
        let changed = format!("{BASE}{}", super::VIEWS).replace(r#"order = ["age"]"#, r#"order = ["-age"]"#);
        recto.apply(&parse(&changed)).await.unwrap();
        stop.store(true, Ordering::Relaxed);
        let mut done = 0;
        for writer in writers {
            done += writer.await.unwrap();
        }
        println!("{done} writes meanwhile");
        assert!(done > 100);
        assert_all_is_well(&recto).await;
        recto.close().await.unwrap();
    });
}

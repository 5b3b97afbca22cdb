//! Views that are added while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use recto::Recto;
use recto_testkit::generate;

use crate::common::run;
use crate::common::stores::parse;
use crate::{BASE, Scope, TESTS, assert_all_is_well, embedded, event, fill, person, record, with_views};

const RECORDS: i32 = 30_000;
/// As many as the demo has flights.
const MANY_RECORDS: i32 = 336_776;
const WRITERS: u64 = 6;

fn is_long() -> bool {
    std::env::var("RECTO_TEST_SCALE").is_ok_and(|scale| scale != "1")
}

/// Puts, changes and deletes records until it is told to stop; how many.
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
    }
    done
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
        let changed = format!("{BASE}{}", crate::VIEWS).replace(r#"order = ["age"]"#, r#"order = ["-age"]"#);
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

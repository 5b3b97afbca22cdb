//! Tests of loads that are interrupted and resumed, repeated, or repeated with other files,
//! collections or options.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recto::ErrorKind;
use recto::session::{LoadReport, LoadRequest, Records};

use crate::support::{Bench, Fault, load_into};

const ROWS: u64 = 6_000;

/// Returns the content of a CSV file. Every hundredth row is invalid for both collections, and
/// every tenth row for the collection `by_count`.
fn text() -> String {
    let mut text = "sensor,at,count,note\n".to_owned();
    for number in 0..ROWS {
        let at = if number % 100 == 99 {
            "never".to_owned()
        } else {
            format!("2013-01-01T10:00:{:02}Z", number % 60)
        };
        let count = if number % 10 == 5 {
            String::new()
        } else {
            (number * 7 % 1_000).to_string()
        };
        text.push_str(&format!("s{},{at},{count},note {number}\n", number * 31 % 4_000));
    }
    text
}

fn small(request: &mut LoadRequest) {
    request.collections = vec!["readings".into(), "by_count".into()];
    request.buffer_bytes = Some(128 << 10);
}

struct Expected {
    report: LoadReport,
    readings: Vec<String>,
    by_count: Vec<String>,
    rejects: String,
}

async fn uninterrupted() -> Expected {
    let bench = Bench::new().await;
    let file = bench.file("a.csv", text());
    let report = bench.load_with(&file, small).await.unwrap();
    assert_eq!(report.collections[1].rows_rejected, ROWS / 10 + ROWS / 100);
    Expected {
        report,
        readings: bench.records("readings").await,
        by_count: bench.records("by_count").await,
        rejects: bench.text("a.csv.rejects.csv"),
    }
}

async fn assert_same(bench: &Bench, report: &LoadReport, expected: &Expected, name: &str) {
    assert_eq!(report.rows_read, expected.report.rows_read);
    assert_eq!(report.collections, expected.report.collections);
    assert_eq!(bench.records("readings").await, expected.readings);
    assert_eq!(bench.records("by_count").await, expected.by_count);
    assert_eq!(bench.text(name), expected.rejects);
}

#[tokio::test]
async fn matches_an_uninterrupted_load() {
    let expected = uninterrupted().await;
    let mut resumed = 0;
    for good in [0_i64, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
        let bench = Bench::new().await;
        let file = bench.file("a.csv", text());
        let (session, store) = bench.unreliable(Fault::Fails, good, i64::MAX).await;
        let error = load_into(&session, &file, small).await.unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert!(error.hint().unwrap().contains("to continue"), "{error}");
        assert!(store.calls.load(Ordering::Relaxed) > good.cast_unsigned());
        let report = bench.load_with(&file, small).await.unwrap();
        resumed = resumed.max(report.rows_resumed);
        assert_same(&bench, &report, &expected, "a.csv.rejects.csv").await;
    }
    assert!(resumed > 0, "no load got as far as a checkpoint");
}

#[tokio::test]
async fn a_load_that_was_dropped_goes_on() {
    let expected = uninterrupted().await;
    let bench = Bench::new().await;
    let file = bench.file("a.csv", text());
    let (session, _) = bench.unreliable(Fault::Slow, 30, i64::MAX).await;
    let load = load_into(&session, &file, small);
    assert!(
        tokio::time::timeout(Duration::from_millis(700), load)
            .await
            .is_err()
    );
    let report = bench.load_with(&file, small).await.unwrap();
    assert!(report.rows_resumed > 0);
    assert_same(&bench, &report, &expected, "a.csv.rejects.csv").await;
}

#[tokio::test]
async fn a_reject_file_that_is_gone_is_made_again() {
    let expected = uninterrupted().await;
    for other_path in [false, true] {
        let bench = Bench::new().await;
        let file = bench.file("a.csv", text());
        let (session, _) = bench.unreliable(Fault::Fails, 40, i64::MAX).await;
        load_into(&session, &file, small).await.unwrap_err();
        let path: PathBuf = if other_path {
            bench.path("other.csv")
        } else {
            std::fs::remove_file(bench.path("a.csv.rejects.csv.partial")).unwrap();
            bench.path("a.csv.rejects.csv")
        };
        let report = bench
            .load_with(&file, |request| {
                small(request);
                request.rejects = Some(path.clone());
            })
            .await
            .unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_same(&bench, &report, &expected, name).await;
    }
}

/// Checks that a resumed load starts from the beginning if a table was added. The new table lacks
/// the rows stored so far, so the load must store them again, with their earlier write timestamps.
#[tokio::test]
async fn a_load_that_goes_on_where_a_table_was_added_begins_anew() {
    let expected = uninterrupted().await;
    let bench = Bench::new().await;
    let file = bench.file("a.csv", text());
    let (session, _) = bench.unreliable(Fault::Fails, 40, i64::MAX).await;
    load_into(&session, &file, small).await.unwrap_err();
    bench
        .change_state(|state| {
            assert!(state.contains(r#""tables":["by_count"]"#), "{state}");
            assert!(!state.contains(r#""rows":0,"#), "{state}");
            state.replace(r#""tables":["by_count"]"#, r#""tables":[]"#)
        })
        .await;
    let report = bench.load_with(&file, small).await.unwrap();
    assert_eq!(report.rows_resumed, 0);
    assert_same(&bench, &report, &expected, "a.csv.rejects.csv").await;
}

#[tokio::test]
async fn a_later_write_wins_over_a_resumed_load() {
    let bench = Bench::new().await;
    let file = bench.file("a.csv", text());
    let (session, _) = bench.unreliable(Fault::Fails, 1, i64::MAX).await;
    load_into(&session, &file, small).await.unwrap_err();
    let record = serde_json::json!({"sensor": "s0", "at": "2013-01-01T10:00:00Z", "note": "by hand"});
    let serde_json::Value::Object(record) = record else {
        unreachable!()
    };
    let (session, _) = bench.unreliable(Fault::Fails, i64::MAX, 0).await;
    session.put("readings", vec![record], None).await.unwrap();
    bench.load_with(&file, small).await.unwrap();
    let records = bench.records("readings").await;
    assert_eq!(
        records[0],
        r#"{"sensor":"s0","at":"2013-01-01T10:00:00.000Z","note":"by hand"}"#
    );
}

#[tokio::test]
async fn a_file_that_was_loaded_is_loaded_again_only_if_asked() {
    let bench = Bench::new().await;
    let file = bench.file("a.csv", "sensor,at,count\na,2013-01-01T10:00:00Z,1\nb,never,2\n");
    let first = bench.load(&file).await.unwrap();
    assert!(!first.already_loaded);
    bench.store_delete_all("readings").await;
    let second = bench.load(&file).await.unwrap();
    assert!(second.already_loaded);
    assert_eq!(
        (second.collections, second.rejects),
        (first.collections.clone(), first.rejects.clone())
    );
    assert!(bench.records("readings").await.is_empty());
    let third = bench
        .load_with(&file, |request| request.again = true)
        .await
        .unwrap();
    assert!(!third.already_loaded);
    assert_eq!(third.collections, first.collections);
    assert_eq!(bench.records("readings").await.len(), 1);
}

#[tokio::test]
async fn treats_other_files_and_options_as_other_loads() {
    let bench = Bench::new().await;
    let text = "sensor,at,count\na,2013-01-01T10:00:00Z,1\n";
    let file = bench.file("a.csv", text);
    bench.load(&file).await.unwrap();
    assert!(
        bench
            .load(&bench.file("renamed.csv", text))
            .await
            .unwrap()
            .already_loaded
    );
    let edited = bench.file("a.csv", text.replace(",1\n", ",2\n"));
    assert!(!bench.load(&edited).await.unwrap().already_loaded);
    let changes: [fn(&mut LoadRequest); 3] = [
        |request| request.collections = vec!["by_count".into()],
        |request| request.collections.push("by_count".into()),
        |request| request.csv.null = vec!["NA".into()],
    ];
    for change in changes {
        assert!(!bench.load_with(&edited, change).await.unwrap().already_loaded);
        assert!(bench.load_with(&edited, change).await.unwrap().already_loaded);
    }
}

#[tokio::test]
async fn a_store_that_never_answers_is_an_error_that_says_so() {
    let bench = Bench::new().await;
    let file = bench.file("a.csv", "sensor,at,count\na,2013-01-01T10:00:00Z,1\n");
    let (session, _) = bench.unreliable(Fault::Unknown, 1, i64::MAX).await;
    tokio::time::pause();
    let error = load_into(&session, &file, |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(error.hint().unwrap().contains("the same load again"));
}

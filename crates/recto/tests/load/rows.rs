//! Tests of how the rows of a loaded file change the records.

use std::sync::Mutex;

use recto::Session;
use recto::session::LoadRequest;

use crate::support::{Bench, load_into};

#[tokio::test]
async fn cells_of_csv() {
    let bench = Bench::new().await;
    let file = bench.file(
        "a.csv",
        "\u{FEFF}note,sensor,at,value,count,tags\r\n\
         \"a \"\"quoted\"\", cell\",a,2013-01-01T10:00:00Z,NaN,-3,\"[\"\"x\"\",\"\"y\"\"]\"\r\n\
         \"two\nlines\",b,2013-01-01 10:00:00.123Z,-Infinity,NA,[]\r\n\
         \"\",c,+12013-01-01T10:00:00Z,1e3,,\r\n\
         \u{e9}\u{1F600},\"NA\u{20}\",1969-12-31T23:59:59.999Z,007,\"NA\",",
    );
    let report = bench
        .load_with(&file, |request| {
            request.csv.null = ["", "NA", "\"NA\""].map(str::to_owned).to_vec();
        })
        .await
        .unwrap();
    assert_eq!(report.collections[0].reasons, []);
    assert_eq!(
        bench.records("readings").await,
        [
            "{\"sensor\":\"NA \",\"at\":\"1969-12-31T23:59:59.999Z\",\"value\":7.0,\"note\":\"é😀\"}",
            r#"{"sensor":"a","at":"2013-01-01T10:00:00.000Z","value":"NaN","count":-3,"tags":["x","y"],"note":"a \"quoted\", cell"}"#,
            r#"{"sensor":"b","at":"2013-01-01T10:00:00.123Z","value":"-Infinity","tags":[],"note":"two\nlines"}"#,
            r#"{"sensor":"c","at":"+12013-01-01T10:00:00.000Z","value":1000.0,"note":""}"#,
        ]
    );
}

#[tokio::test]
async fn one_file_goes_to_several_collections() {
    let bench = Bench::new().await;
    let file = bench.file(
        "a.csv",
        "sensor,at,count\na,2013-01-01T10:00:00Z,1\nb,2013-01-01T10:00:00Z,\nc,2013-01-01T10:00:00Z,x\n",
    );
    let both = |request: &mut LoadRequest| request.collections = vec!["readings".into(), "by_count".into()];
    let report = bench.load_with(&file, both).await.unwrap();
    let of = |index: usize| {
        let collection = &report.collections[index];
        (
            collection.name.as_str(),
            collection.rows_stored,
            collection.rows_rejected,
        )
    };
    assert_eq!((of(0), of(1)), (("readings", 2, 1), ("by_count", 1, 2)));
    assert_eq!(
        bench.records("by_count").await,
        [r#"{"sensor":"a","at":"2013-01-01T10:00:00.000Z","count":1}"#]
    );
    assert_eq!(
        bench.text("a.csv.rejects.csv"),
        "recto_line,recto_collection,recto_reason,sensor,at,count\n\
         3,by_count,count is part of the key of by_count and is null,b,2013-01-01T10:00:00Z,\n\
         4,readings,\"count: expected an int, a whole number from -2147483648 to 2147483647, found \"\"x\"\"\",c,2013-01-01T10:00:00Z,x\n\
         4,by_count,\"count: expected an int, a whole number from -2147483648 to 2147483647, found \"\"x\"\"\",c,2013-01-01T10:00:00Z,x\n"
    );
}

#[tokio::test]
async fn of_rows_of_one_key_the_last_stands() {
    for buffer in [64 << 10, 64 << 20] {
        let bench = Bench::new().await;
        let mut text = "sensor,at,count,note\n".to_owned();
        for number in 0..3_000 {
            let note = if number % 2 == 0 { "" } else { "odd" };
            text.push_str(&format!(
                "s{},2013-01-01T10:00:00Z,{},{note}\n",
                number % 10,
                10_000 - number
            ));
        }
        text.push_str("s0,2013-01-01T10:00:00Z,5,\n");
        let file = bench.file("a.csv", text);
        bench
            .load_with(&file, |request| request.buffer_bytes = Some(buffer))
            .await
            .unwrap();
        let records = bench.records("readings").await;
        assert_eq!(records.len(), 10);
        assert_eq!(
            records[0],
            r#"{"sensor":"s0","at":"2013-01-01T10:00:00.000Z","count":5}"#
        );
        assert_eq!(
            records[9],
            r#"{"sensor":"s9","at":"2013-01-01T10:00:00.000Z","count":7001,"note":"odd"}"#
        );
    }
}

#[tokio::test]
async fn a_huge_cell_loads_and_one_over_the_limits_is_rejected() {
    let bench = Bench::new().await;
    let note = "x".repeat(3 << 20);
    let too_much = "y".repeat(20 << 20);
    let key = "k".repeat(70_000);
    let file = bench.file(
        "a.csv",
        format!(
            "sensor,at,note\na,2013-01-01T10:00:00Z,{note}\nb,2013-01-01T10:00:00Z,{too_much}\n\
             {key},2013-01-01T10:00:00Z,\nc,2013-01-01T10:00:00Z,\"{note}\"\n"
        ),
    );
    let report = bench.load(&file).await.unwrap();
    assert_eq!(report.collections[0].rows_stored, 2);
    let reasons: Vec<&str> = report.collections[0]
        .reasons
        .iter()
        .map(|(reason, _)| reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "over the store's limits",
            "sensor is longer than a key part may be"
        ]
    );
    assert_eq!(bench.records("readings").await.len(), 2);
}

#[tokio::test]
async fn progress_rises_to_the_end() {
    let bench = Bench::new().await;
    let mut text = "sensor,at\n".to_owned();
    for number in 0..20_000 {
        text.push_str(&format!("s{number},2013-01-01T10:00:00Z\n"));
    }
    let file = bench.file("a.csv", text);
    let seen = Mutex::new(Vec::new());
    let request = LoadRequest {
        file: file.clone(),
        collections: vec!["readings".into()],
        ..LoadRequest::default()
    };
    let (session, _) = bench.unreliable(crate::support::Fault::Slow, 2, 2).await;
    session
        .tools()
        .unwrap()
        .load(&request, &|progress| seen.lock().unwrap().push(progress))
        .await
        .unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() >= 5 && seen.len() < 30, "{}", seen.len());
    assert!(seen.is_sorted_by_key(|progress| (progress.bytes_consumed, progress.rows_stored)));
    let last = seen.last().unwrap();
    assert_eq!(last.bytes_consumed, std::fs::metadata(&file).unwrap().len());
    assert_eq!(
        (last.rows_read, last.rows_stored, last.bytes_total),
        (20_000, 20_000, last.bytes_consumed)
    );
}

#[tokio::test]
async fn outcomes_that_are_unknown_are_asked_for_again() {
    let bench = Bench::new().await;
    let file = bench.file("a.csv", "sensor,at\na,2013-01-01T10:00:00Z\n");
    let (session, store) = bench.unreliable(crate::support::Fault::Unknown, 1, 2).await;
    let report = load_into(&session, &file, |_| {}).await.unwrap();
    assert_eq!(report.collections[0].rows_stored, 1);
    // The load writes its first checkpoint, tries three times to write the row, and writes two more
    // checkpoints.
    assert_eq!(store.calls.load(std::sync::atomic::Ordering::Relaxed), 6);
    assert_eq!(bench.records("readings").await.len(), 1);
}

/// Checks that a load counts records, not rows. A row must not replace a record of an append-only
/// collection with the same key. The record may be in the same buffer, in an earlier buffer, or in
/// the store.
#[tokio::test]
async fn rows_of_one_key_are_counted_as_what_they_are() {
    const KEYS: usize = 900;
    for buffer in [64 << 10, 64 << 20] {
        let bench = Bench::new().await;
        let line = |number: usize, note: &str| format!("s,2013-01-01T10:00:00Z,{},{note}\n", number + 1);
        let mut text = "sensor,at,count,note\n".to_owned();
        for note in ["first", "first", "", "other"] {
            (0..KEYS).for_each(|number| text.push_str(&line(number, note)));
        }
        let file = bench.file("a.csv", &text);
        let with = |again: bool| {
            move |request: &mut LoadRequest| {
                request.collections = vec!["by_count".into(), "readings".into()];
                request.buffer_bytes = Some(buffer);
                request.again = again;
            }
        };
        let counts = |report: &recto::session::LoadReport, index: usize| {
            let one = &report.collections[index];
            [
                one.rows_stored,
                one.rows_replaced,
                one.rows_repeated,
                one.rows_rejected,
            ]
        };
        let keys = KEYS as u64;
        let report = bench.load_with(&file, with(false)).await.unwrap();
        // The rows have `KEYS` different keys in `by_count`, but all the same key in `readings`.
        assert_eq!(counts(&report, 0), [keys, 0, keys, 2 * keys]);
        assert_eq!(
            report.collections[0].reasons,
            [(
                "another record with its key is there already".to_owned(),
                2 * keys
            )]
        );
        let of_one_key = counts(&report, 1);
        assert_eq!(
            (of_one_key[0], of_one_key.iter().sum()),
            (1, 4 * keys),
            "{of_one_key:?}"
        );
        assert_eq!(of_one_key[3], 0);
        let records = bench.records("by_count").await;
        assert!(records.len() == KEYS && records.iter().all(|record| record.contains("first")));
        let rejects = bench.text("a.csv.rejects.csv");
        assert_eq!(rejects.lines().count(), 1 + 2 * KEYS);
        assert!(rejects.contains(",by_count,another record with its key is there already,"));
        let report = bench.load_with(&file, with(true)).await.unwrap();
        assert_eq!(counts(&report, 0), [0, 0, 2 * keys, 2 * keys]);
        assert_eq!(bench.records("by_count").await, records);
    }
}

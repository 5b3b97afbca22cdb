//! Tests of rows that a load rejects.

use recto::session::LoadRequest;
use recto::store::Limits;
use recto::store::memory::MemoryStore;
use recto::{Environment, ErrorKind};

use crate::support::Bench;

#[tokio::test]
async fn rows_that_cannot_be_read_stop_nothing() {
    let bench = Bench::new().await;
    let mut text = b"sensor,at,note\n\
        a,2013-01-01T10:00:00Z,good\n\
        b,2013-01-01T10:00:00Z\n\
        c,2013-01-01T10:00:00Z,too,many\n\
        d,2013-01-01T10:00:00Z,\"lost\n\
        e,2013-01-01T10:00:00Z,\"quote\"\n\
        f,2013-01-01T10:00:00Z,\xFF\n\
        g,yesterday,\n\
        ,2013-01-01T10:00:00Z,\n"
        .to_vec();
    text.extend_from_slice(b"h,2013-01-01T10:00:00Z,\"open");
    let report = bench.load(&bench.file("a.csv", text)).await.unwrap();
    assert_eq!(report.rows_read, 9);
    assert_eq!(
        (
            report.collections[0].rows_stored,
            report.collections[0].rows_rejected
        ),
        (2, 7)
    );
    assert_eq!(report.rejects, Some(bench.path("a.csv.rejects.csv")));
    let rejects = bench.text("a.csv.rejects.csv");
    let lines: Vec<&str> = rejects.lines().collect();
    let expected = [
        "recto_line,recto_collection,recto_reason,sensor,at,note",
        "3,readings,2 cells where the header has 3,\"b,2013-01-01T10:00:00Z\"",
        "4,readings,4 cells where the header has 3,\"c,2013-01-01T10:00:00Z,too,many\"",
        "5,readings,text between a closing quote and the next separator,\"d,2013-01-01T10:00:00Z,\"\"lost\"",
        "7,readings,not UTF-8 text: from byte 23 of the row on,\"f,2013-01-01T10:00:00Z,\u{FFFD}\"",
        "8,readings,\"at: expected a timestamp such as \"\"2013-01-31T10:00:00Z\"\" (hint: --time-format), found \"\"yesterday\"\"\",g,yesterday,",
        "9,readings,sensor is part of the key of readings and is null,,2013-01-01T10:00:00Z,",
        "10,readings,a quote that is opened and never closed,\"h,2013-01-01T10:00:00Z,\"\"open\"",
    ];
    assert_eq!(lines, expected);
    assert!(!bench.path("a.csv.rejects.csv.partial").exists());
}

#[tokio::test]
async fn rejected_lines_of_ndjson() {
    let bench = Bench::new().await;
    let text = "{\"sensor\":\"a\",\"at\":\"2013-01-01T10:00:00Z\"}\n\
                {\"sensor\":\"b\",\"at\":\"2013-01-01T10:00:00Z\",\"nte\":1}\n\
                 { \"sensor\":5, \"at\":\"2013-01-01T10:00:00Z\"}\n\
                {}\n\
                [1]\n\
                {\"sensor\":\"c\",\n\
                {\"sensor\":\"d\",\"at\":\"2013-01-01T10:00:00Z\",\"note\":\"x\",\"note\":null}\n";
    let file = bench.file("a.ndjson", text);
    let report = bench.load(&file).await.unwrap();
    assert_eq!(
        (
            report.collections[0].rows_stored,
            report.collections[0].rows_rejected
        ),
        (1, 6)
    );
    let rejects = bench.text("a.ndjson.rejects.ndjson");
    let lines: Vec<serde_json::Value> = rejects
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0]["recto_reason"],
        "readings has no field \"nte\" (did you mean note?)"
    );
    assert_eq!(
        (&lines[0]["recto_line"], &lines[0]["nte"]),
        (&2.into(), &1.into())
    );
    assert_eq!(lines[1]["recto_reason"], "sensor: expected text, found 5");
    assert_eq!(lines[1]["sensor"], 5);
    assert_eq!(
        lines[2]["recto_reason"],
        "sensor is part of the key of readings and is null"
    );
    assert_eq!(
        (&lines[3]["recto_reason"], &lines[3]["recto_text"]),
        (&"not a JSON object".into(), &"[1]".into())
    );
    assert!(
        lines[4]["recto_reason"]
            .as_str()
            .unwrap()
            .starts_with("not JSON: ")
    );
    assert_eq!(lines[5]["recto_reason"], "note is given twice");
    let report = bench
        .load_with(&file, |request| {
            request.ignore_unknown = true;
            request.rejects = Some(bench.path("second.ndjson"));
        })
        .await
        .unwrap();
    assert_eq!(bench.text("a.ndjson.rejects.ndjson"), rejects);
    assert_eq!(
        (
            report.collections[0].rows_stored,
            report.collections[0].rows_repeated,
            report.collections[0].rows_rejected
        ),
        (1, 1, 5)
    );
}

#[tokio::test]
async fn a_corrected_reject_file_loads() {
    for (name, text, wrong, right) in [
        (
            "a.csv",
            "sensor,at\na,noon\nb,2013-01-01T10:00:00Z\n",
            "a,noon",
            "a,2013-01-01T12:00:00Z",
        ),
        (
            "a.ndjson",
            "{\"sensor\":\"a\",\"at\":\"noon\"}\n",
            "\"at\":\"noon\"",
            "\"at\":\"2013-01-01T12:00:00Z\"",
        ),
    ] {
        let bench = Bench::new().await;
        let path = bench
            .load(&bench.file(name, text))
            .await
            .unwrap()
            .rejects
            .unwrap();
        let corrected = std::fs::read_to_string(&path).unwrap().replace(wrong, right);
        std::fs::write(&path, corrected).unwrap();
        let report = bench
            .load_with(&path, |request| request.ignore_unknown = true)
            .await
            .unwrap();
        assert_eq!(
            (report.collections[0].rows_stored, report.rejects),
            (1, None),
            "{name}"
        );
        let records = bench.records("readings").await;
        assert_eq!(
            records[0], r#"{"sensor":"a","at":"2013-01-01T12:00:00.000Z"}"#,
            "{name}"
        );
    }
}

#[tokio::test]
async fn rejecting_everything_is_a_report() {
    let bench = Bench::new().await;
    let text = format!("sensor,at\n{}", "a,never\n".repeat(5_000));
    let file = bench.file("a.csv", text);
    let report = bench
        .load_with(&file, |request| request.buffer_bytes = Some(64 << 10))
        .await
        .unwrap();
    assert_eq!(
        (
            report.collections[0].rows_stored,
            report.collections[0].rows_rejected
        ),
        (0, 5_000)
    );
    let reason = "at: expected a timestamp such as \"2013-01-31T10:00:00Z\" (hint: --time-format)".to_owned();
    assert_eq!(report.collections[0].reasons, [(reason, 5_000)]);
    assert_eq!(bench.text("a.csv.rejects.csv").lines().count(), 5_001);
}

#[tokio::test]
async fn the_reject_file_stands_where_it_was_asked_for() {
    let bench = Bench::new().await;
    let file = bench.file("a.csv", "sensor,at\na,never\n");
    let to = |path| move |request: &mut LoadRequest| request.rejects = Some(path);
    let error = bench
        .load_with(&file, to(bench.path("missing/r.csv")))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.hint().unwrap().contains("--rejects"));
    let report = bench.load_with(&file, to(bench.path("r.csv"))).await.unwrap();
    assert_eq!(report.rejects, Some(bench.path("r.csv")));
    assert!(!bench.path("a.csv.rejects.csv").exists());
}

#[tokio::test]
async fn loads_the_other_rows_if_the_store_rejects_some() {
    // Give the store lower limits than those that the load checks, so that the store rejects some
    // rows.
    let limits = Limits {
        mutation_bytes: 1_000,
        batch_bytes: 5_000,
        key_bytes: 500,
        remote: true,
        leaves_tombstones: true,
        sees_conflicts: false,
        transactions: false,
        counts_rows: false,
    };
    let bench = Bench::with_store(MemoryStore::with_limits(Environment::system(), limits)).await;
    let mut text = "note,sensor,at\n".to_owned();
    for number in 0..200 {
        let note = if number % 50 == 7 {
            "n".repeat(2_000)
        } else {
            "fine".to_owned()
        };
        text.push_str(&format!("\"{note}\",s{number:03},2013-01-01T10:00:00Z\n"));
    }
    let report = bench.load(&bench.file("a.csv", text)).await.unwrap();
    assert_eq!(
        (
            report.collections[0].rows_stored,
            report.collections[0].rows_rejected
        ),
        (196, 4)
    );
    let rejects = bench.text("a.csv.rejects.csv");
    let lines: Vec<&str> = rejects.lines().skip(1).collect();
    assert!(lines[0].starts_with("9,readings,"), "{}", &lines[0][..80]);
    assert!(
        lines[0].ends_with("nnn,s007,2013-01-01T10:00:00.000Z")
            || lines[0].ends_with("nnn,s007,2013-01-01T10:00:00Z")
    );
    assert_eq!(lines.len(), 4);
}

/// Checks that a load does not overwrite an existing file at the path of its reject file.
#[tokio::test]
async fn nothing_that_is_there_is_replaced_by_rejects() {
    let bench = Bench::new().await;
    let content = "not json\n";
    let input = bench.file("input.ndjson", content);
    let kept = bench.file("kept.txt", "mine");
    let folder = bench.path("folder");
    std::fs::create_dir(&folder).unwrap();
    let hard_link = bench.path("hard");
    std::fs::hard_link(&input, &hard_link).unwrap();
    let mut places = vec![input.clone(), kept, folder, hard_link];
    #[cfg(unix)]
    {
        let link = bench.path("link");
        std::os::unix::fs::symlink(bench.path("nowhere"), &link).unwrap();
        places.push(link);
    }
    for place in places {
        let error = bench
            .load_with(&input, |request| request.rejects = Some(place.clone()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{}", place.display());
        assert!(error.hint().is_some());
    }
    assert_eq!(bench.text("input.ndjson"), content);
    assert_eq!(bench.text("kept.txt"), "mine");
}

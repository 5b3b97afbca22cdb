//! Tests of `recto buckets` on an embedded store and through a server.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::support::{Server, recto};

const SCHEMA: &str = r#"
[collection.events]
fields = { stream = "text", at = "int", text = "text" }
key = ["stream", "at"]
partition = ["stream"]
order = ["-at"]
writes = "append"
bucket = { rows = 50 }

[collection.words]
fields = { word = "text" }
key = ["word"]
"#;

const ROWS: u32 = 2_000;

/// Creates a folder with a store that has events of two streams.
fn stored() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("recto.toml"), SCHEMA).unwrap();
    let mut csv = String::from("stream,at,text\nb,1,alone\n");
    for at in 0..ROWS {
        writeln!(csv, "a,{at},text {at}").unwrap();
    }
    std::fs::write(path.join("events.csv"), csv).unwrap();
    recto(path, &["apply", "--yes", "--store", "served"]).done();
    recto(
        path,
        &["load", "events", "events.csv", "--quiet", "--store", "served"],
    )
    .done();
    recto(
        path,
        &["buckets", "events", "--rebalance", "--quiet", "--store", "served"],
    )
    .done();
    folder
}

#[test]
fn buckets_are_listed_and_mended_alike() {
    let folder = stored();
    let path = folder.path();
    let lines: [&[&str]; 6] = [
        &["buckets", "events"],
        &["buckets", "events", "--json"],
        &["buckets", "events.primary", "--filter", "stream = \"a\""],
        &[
            "buckets",
            "events",
            "--filter",
            "stream = \"a\"",
            "--page-size",
            "3",
            "--at",
            "[1000]",
            "--json",
        ],
        &["buckets", "events", "--filter", "stream = \"b\"", "--json"],
        &["buckets", "events", "--rebalance", "--json", "--quiet"],
    ];
    let of = |store: &str| -> Vec<String> {
        let run = |line: &&[&str]| recto(path, &[line, &["--store", store][..]].concat()).done();
        lines.iter().map(run).collect()
    };
    let local = of("served");
    let partitions: Json = serde_json::from_str(&local[1]).unwrap();
    assert_eq!(partitions["partitions"][0]["rows"], ROWS);
    assert_eq!(partitions["partitions"][0]["rows_error"], 0);
    assert!(partitions["partitions"][0]["buckets"].as_u64().unwrap() >= u64::from(ROWS / 50));
    assert!(
        local[2].contains("target 50 rows") && local[2].contains("none is over the target"),
        "{}",
        local[2]
    );
    let around: Json = serde_json::from_str(&local[3]).unwrap();
    assert_eq!(around["buckets"].as_array().unwrap().len(), 3);
    assert_eq!(around["places"][0], 1);
    let repaired: Json = serde_json::from_str(&local[5]).unwrap();
    assert_eq!(
        (repaired["partitions"].clone(), repaired["too_large"].clone()),
        (2.into(), 0.into())
    );
    for (line, said) in [
        (
            &["buckets", "events", "--filter", "at = 1"][..],
            "it lacks stream",
        ),
        (&["buckets", "words"], "has no buckets"),
        (&["buckets", "events.by_time"], "no readable view"),
        (&["buckets", "nothing"], "no collection"),
    ] {
        let ran = recto(path, &[line, &["--store", "served"]].concat());
        assert!(ran.code != 0 && ran.err.contains(said), "{line:?}: {}", ran.err);
    }
    let server = Server::start(path, &["--store", "served"]);
    let through = of(&server.url);
    assert_eq!(through, local);
    let refused = recto(
        path,
        &[
            "buckets",
            "events",
            "--rebalance",
            "--clear",
            "--store",
            &server.url,
        ],
    );
    assert!(
        refused
            .err
            .contains("a server clears the leftovers of splits itself"),
        "{}",
        refused.err
    );
    let missing_partition_fields = recto(
        path,
        &["buckets", "events", "--filter", "at = 1", "--store", &server.url],
    );
    assert!(
        missing_partition_fields.err.contains("it lacks stream"),
        "{}",
        missing_partition_fields.err
    );
}

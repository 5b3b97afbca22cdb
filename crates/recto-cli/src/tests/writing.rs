//! Tests of the output of `recto get`, `put`, `delete` and `load`.

use super::*;

const KEY: [&str; 3] = ["2013-12-31T23:00:00Z", "UA", "1545"];

#[tokio::test]
async fn a_record_is_shown_a_field_a_line_or_as_json() {
    let mut all = String::new();
    for more in [
        &KEY[..],
        &["2013-12-31T23:00:00Z,UA,1545", "--json"],
        &["a", "B6", "7"],
        &["a"],
    ] {
        let line: Vec<&str> = ["get", "flights"].iter().chain(more).copied().collect();
        all.push_str(&run(FakeSession::new(), console(), &line).await);
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn records_are_put_from_the_argument_and_from_standard_input() {
    let mut all = run(
        FakeSession::new(),
        console(),
        &["put", "flights", "{\"carrier\": \"UA\"}"],
    )
    .await;
    for input in [
        "{\"carrier\": \"UA\"}\n{\"carrier\": \"B6\"}\n",
        "",
        "{\"carrier\": \"UA\"}\n{\"carrier\":\n",
    ] {
        let (console, screen) = console();
        all.push_str(
            &run(
                FakeSession::new(),
                (console.reading(input), screen),
                &["put", "flights"],
            )
            .await,
        );
    }
    all.push_str(&run(FakeSession::new(), console(), &["put", "flights", "[1]"]).await);
    all.push_str(&run(FakeSession::new(), console(), &["put", "posts", "{}"]).await);
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn a_record_is_deleted_by_its_key() {
    let line: Vec<&str> = ["delete", "flights"].iter().chain(&KEY).copied().collect();
    insta::assert_snapshot!(run(FakeSession::new(), console(), &line).await);
}

/// Returns the output without durations, which differ between runs.
fn without_times(text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let line = match (line.find(" in "), line.find("\"time_micros\"")) {
            (Some(at), _) if line.starts_with('✓') => &line[..at],
            (_, Some(at)) => &line[..at],
            _ => line,
        };
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}

#[tokio::test]
async fn a_load_reports_what_was_stored_and_what_was_not() {
    let mut all = String::new();
    for (rejected, line) in [
        (0, &["load", "flights", "flights.csv"][..]),
        (
            2_512,
            &[
                "load",
                "flights,delays",
                "flights.csv.zip",
                "--null",
                "NA",
                "--buffer-mib",
                "64",
            ],
        ),
        (1, &["load", "flights", "flights.csv", "--json", "--quiet"]),
        (0, &["load", "flights", "loaded.csv"]),
    ] {
        let session = FakeSession {
            rejected,
            ..FakeSession::new()
        };
        all.push_str(&without_times(&run(session, console(), line).await));
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn records_are_inserted_updated_and_put_on_their_versions() {
    let mut all = String::new();
    let of = "flights";
    for line in [
        &["insert", of, "{\"carrier\": \"UA\"}", "--ttl", "60"][..],
        &["put", of, "{\"carrier\": \"UA\"}", "--if-version", "17"],
        &[
            "update",
            of,
            "2013-12-31T23:00:00Z,UA,1545",
            "tailnum=N1",
            "--if-version",
            "17",
        ],
        &["update", of, "2013-12-31T23:00:00Z", "UA", "1545", "tailnum="],
        &["update", of, "2013-12-31T23:00:00Z", "UA", "1545", "tailnum"],
        &["update", of, "2013-12-31T23:00:00Z", "UA"],
        &["delete", of, "2013-12-31T23:00:00Z,UA,1545", "--if-version", "17"],
    ] {
        all.push_str(&run(FakeSession::new(), console(), line).await);
    }
    for (line, input) in [
        (
            &["update", of, "2013-12-31T23:00:00Z,UA,1545"][..],
            "{\"tailnum\": null}",
        ),
        (
            &["put", of, "--if-version", "17"],
            "{\"carrier\": \"UA\"}\n{\"carrier\": \"B6\"}\n",
        ),
    ] {
        let (console, screen) = console();
        all.push_str(&run(FakeSession::new(), (console.reading(input), screen), line).await);
    }
    insta::assert_snapshot!(all);
}

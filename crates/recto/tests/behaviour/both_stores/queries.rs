//! Tests of every kind of condition and sort, with expected rows written by hand.

use recto::filter::{field, tuple};
use recto::{DynamicRecord, Page, PageQuery, Recto};
use recto_model::Direction;
use recto_plan::text::Operator;
use serde_json::json;

use super::pages::{events, times};
use crate::common::Subject;
use crate::common::subject::words;

async fn places(recto: &Recto, test: &str) -> Subject {
    let mut subject = Subject::new(recto, "places");
    let names = [
        ("de", "Aachen", 249_000),
        ("de", "Köln", 1_087_000),
        ("de", "Könitz", 1_200),
        ("de", "Zürich", 3),
        ("ch", "Basel", 178_000),
        ("ch", "Zürich", 443_000),
        ("jp", "東京", 14_094_000),
        ("jp", "東根", 47_000),
        ("jp", "大阪", 2_752_000),
    ];
    subject
        .put(names.map(|(country, name, inhabitants)| {
            json!({ "test": test, "country": country, "name": name, "inhabitants": inhabitants.to_string().parse::<i64>().unwrap() })
        }))
        .await;
    subject
}

/// Returns all rows of a query as text, read forwards in pages of two rows. Asserts that reading
/// backwards returns the same rows.
async fn everything(query: &PageQuery<DynamicRecord>, fields: &[&str]) -> String {
    let mut forwards: Vec<String> = Vec::new();
    let mut backwards: Vec<String> = Vec::new();
    for (found, is_forwards) in [(&mut forwards, true), (&mut backwards, false)] {
        let mut next = if is_forwards {
            query.clone().first(2)
        } else {
            query.clone().last(2)
        };
        loop {
            let page = next.await.unwrap();
            let cursor = if is_forwards {
                page.next_cursor()
            } else {
                page.previous_cursor()
            };
            found.push(words(&page, fields));
            let Some(cursor) = cursor else { break };
            next = query.clone().page_size(2).page_token(cursor);
        }
    }
    backwards.reverse();
    let joined = |pages: &[String]| {
        pages
            .iter()
            .filter(|page| !page.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(joined(&forwards), joined(&backwards));
    joined(&forwards)
}

pub(crate) async fn lists_of_partition_values_merge(recto: Recto) {
    let subject = places(&recto, "merge").await;
    let filter = r#"test = "merge" AND (country = "de" OR country = "ch" OR country = "nowhere")"#;
    let names = everything(&subject.text(filter, "name"), &["name"]).await;
    assert_eq!(names, "Aachen, Basel, Köln, Könitz, Zürich, Zürich");
    let names = everything(&subject.text(filter, "name desc"), &["name", "country"]).await;
    assert_eq!(
        names,
        "Zürich de, Zürich ch, Könitz de, Köln de, Basel ch, Aachen de"
    );
}

pub(crate) async fn ties_go_by_the_partition(recto: Recto) {
    let subject = places(&recto, "ties").await;
    let filter = r#"test = "ties" AND (country = "de" OR country = "ch") AND name = "Zürich""#;
    assert_eq!(
        everything(&subject.text(filter, ""), &["country"]).await,
        "ch, de"
    );
    // A cursor between two rows with the same sort value must work like any other cursor.
    let filter = r#"test = "ties" AND (country = "de" OR country = "ch")"#;
    let query = subject.text(filter, "name");
    let all = query.clone().await.unwrap();
    let after = query.clone().after(all.cursor(4)).await.unwrap();
    assert_eq!(words(&after, &["country", "name"]), "de Zürich");
    let before = query.before(all.cursor(5)).last(1).await.unwrap();
    assert_eq!(words(&before, &["country", "name"]), "ch Zürich");
}

pub(crate) async fn the_sort_may_begin_with_the_partition(recto: Recto) {
    let subject = places(&recto, "partition_first").await;
    let filter = r#"test = "partition_first" AND (country = "jp" OR country = "de" OR country = "ch")"#;
    let names = everything(&subject.text(filter, "country, name"), &["country", "name"]).await;
    assert_eq!(
        names,
        "ch Basel, ch Zürich, de Aachen, de Köln, de Könitz, de Zürich, jp 大阪, jp 東京, jp 東根"
    );
    let names = everything(&subject.text(filter, "country desc, name"), &["country", "name"]).await;
    assert_eq!(
        names,
        "jp 大阪, jp 東京, jp 東根, de Aachen, de Köln, de Könitz, de Zürich, ch Basel, ch Zürich"
    );
}

pub(crate) async fn lists_of_order_values(recto: Recto) {
    let (subject, _) = events(&recto, "order_list", 10).await;
    let filter = r#"stream = "order_list" AND (at = 7 OR at = 2 OR at = 100 OR at = 5 OR at = 2)"#;
    assert_eq!(everything(&subject.text(filter, ""), &["at"]).await, "7, 5, 2");
    assert_eq!(everything(&subject.text(filter, "at"), &["at"]).await, "2, 5, 7");
    let filter = format!("{filter} AND at < 7");
    assert_eq!(everything(&subject.text(&filter, "at"), &["at"]).await, "2, 5");
}

/// Stores 16 records: every combination of 0 and 1 in the columns a, b, c, d. The collection's
/// order is a, -b, c, -d.
async fn mixed(recto: &Recto, p: &str) -> Subject {
    let mut subject = Subject::new(recto, "mixed");
    let bit = |number: i32, place: u32| number >> place & 1;
    let row = |n: i32| json!({ "p": p, "a": bit(n, 3), "b": bit(n, 2), "c": bit(n, 1), "d": bit(n, 0) });
    subject.put((0..16).map(row)).await;
    subject
}

fn digits(text: &str) -> String {
    text.replace(' ', "").replace(',', " ")
}

pub(crate) async fn mixed_directions(recto: Recto) {
    let subject = mixed(&recto, "directions").await;
    let query = subject.text(r#"p = "directions""#, "");
    let found = digits(&everything(&query, &["a", "b", "c", "d"]).await);
    let expected = "0101 0100 0111 0110 0001 0000 0011 0010 1101 1100 1111 1110 1001 1000 1011 1010";
    assert_eq!(found, expected);
    let reversed: Vec<&str> = expected.split(' ').rev().collect();
    let query = subject.text(r#"p = "directions""#, "a desc, b, c desc, d");
    assert_eq!(
        digits(&everything(&query, &["a", "b", "c", "d"]).await),
        reversed.join(" ")
    );
    // Each of the following orders differs from the view's order and from its reverse, so Recto
    // must reject it.
    assert!(subject.text(r#"p = "directions""#, "a, b").await.is_err());
    assert!(
        subject
            .text(r#"p = "directions""#, "a, b desc, c desc")
            .await
            .is_err()
    );
    // Read the page after each row, and the page before each row.
    let query = subject.text(r#"p = "directions""#, "");
    let all = query.clone().await.unwrap();
    let names: Vec<&str> = expected.split(' ').collect();
    for index in 0..16 {
        let after = query.clone().first(3).after(all.cursor(index)).await.unwrap();
        let found = digits(&words(&after, &["a", "b", "c", "d"]));
        assert_eq!(
            found,
            names[index + 1..(index + 4).min(16)].join(" "),
            "after {}",
            names[index]
        );
        let before = query.clone().last(3).before(all.cursor(index)).await.unwrap();
        let found = digits(&words(&before, &["a", "b", "c", "d"]));
        assert_eq!(
            found,
            names[index.saturating_sub(3)..index].join(" "),
            "before {}",
            names[index]
        );
    }
}

/// Checks that ranges of tuples compare values, whatever the directions of the columns. The rows
/// come in the order of the collection.
pub(crate) async fn tuple_ranges_over_mixed_directions(recto: Recto) {
    let subject = mixed(&recto, "tuples").await;
    for (condition, expected) in [
        (
            "(a, b) >= (0, 1) AND (a, b) <= (1, 0)",
            "0101 0100 0111 0110 1001 1000 1011 1010",
        ),
        ("(a, b) > (0, 1)", "1101 1100 1111 1110 1001 1000 1011 1010"),
        ("(a, b, c) < (0, 1, 1)", "0101 0100 0001 0000 0011 0010"),
        ("(a, b, c, d) > (1, 0, 1, 0)", "1101 1100 1111 1110 1011"),
        ("(a, b, c, d) = (1, 0, 1, 0)", "1010"),
        ("(a, b) > (1, 1)", ""),
        ("(a, b) > (0, 0) AND (a, b) < (0, 1)", ""),
        ("a = 1 AND (b, c) >= (0, 1)", "1101 1100 1111 1110 1011 1010"),
        ("a = 1 AND (a, b, c) > (1, 0, 1)", "1101 1100 1111 1110"),
        (
            "(a = 0 OR a = 1) AND (b, c) > (0, 1)",
            "0101 0100 0111 0110 1101 1100 1111 1110",
        ),
        ("a >= 1 AND (a, b) < (1, 1)", "1001 1000 1011 1010"),
    ] {
        let query = subject.text(&format!(r#"p = "tuples" AND {condition}"#), "");
        let found = digits(&everything(&query, &["a", "b", "c", "d"]).await);
        assert_eq!(found, expected, "{condition}");
    }
}

pub(crate) async fn text_prefixes(recto: Recto) {
    let subject = places(&recto, "prefix").await;
    for (country, prefix, expected) in [
        ("de", "K", "Köln, Könitz"),
        ("de", "Kö", "Köln, Könitz"),
        ("de", "Köl", "Köln"),
        ("de", "k", ""),
        ("de", "", "Aachen, Köln, Könitz, Zürich"),
        ("de", "Könitz und Umgebung", ""),
        ("jp", "東", "東京, 東根"),
        ("jp", "東京", "東京"),
    ] {
        let filter = format!(r#"test = "prefix" AND country = "{country}" AND startsWith(name, "{prefix}")"#);
        assert_eq!(
            everything(&subject.text(&filter, ""), &["name"]).await,
            expected,
            "{prefix}"
        );
    }
    // A star in a value has no special meaning, so it must match no other text.
    let filter = r#"test = "prefix" AND country = "de" AND name = "K*""#;
    assert_eq!(everything(&subject.text(filter, ""), &["name"]).await, "");
    // The prefix is the last code point, so no text is greater than all texts that begin with the
    // prefix.
    let filter = "test = \"prefix\" AND country = \"jp\" AND startsWith(name, \"\u{10ffff}\")";
    assert_eq!(everything(&subject.text(filter, ""), &["name"]).await, "");
}

pub(crate) async fn contradictions_are_empty_pages(recto: Recto) {
    let (subject, _) = events(&recto, "contradiction", 5).await;
    for condition in [
        "at = 1 AND at = 2",
        "at < 1 AND at > 3",
        "at < 1 AND at > 0 AND at = 7",
        "at < 2 AND at >= 2",
        "(at = 1 OR at = 2) AND (at = 3 OR at = 4)",
        "(at = 1 OR at = 2) AND at > 2",
        r#"stream = "another""#,
        "(at, id) > (3, 0) AND (at, id) < (3, 0)",
    ] {
        let filter = format!(r#"stream = "contradiction" AND {condition}"#);
        for query in [
            subject.text(&filter, ""),
            subject.text(&filter, "").last(2),
            subject.text(&filter, "at").both_edges(),
        ] {
            let page = query.await.unwrap_or_else(|error| panic!("{condition}: {error}"));
            assert!(page.is_empty(), "{condition}");
            assert_eq!(
                (page.has_previous(), page.has_next()),
                (Some(false), Some(false)),
                "{condition}"
            );
        }
    }
    // Contradictory conditions must give an empty page, even together with conditions that no view
    // serves.
    let page = subject
        .text(r#"kind = "third" AND at = 1 AND at = 2"#, "note")
        .await
        .unwrap();
    assert!(page.is_empty());
    let nothing = subject
        .collection
        .query()
        .matching(field("stream").any_of(Vec::<&str>::new()));
    assert!(nothing.await.unwrap().is_empty());
    // The only partition field is empty here, and no record of `readings` has an empty partition
    // value.
    let sensors = Subject::new(&recto, "readings");
    assert!(sensors.text(r#"sensor = """#, "").await.unwrap().is_empty());
}

pub(crate) async fn filter_scan_conditions(recto: Recto) {
    let (subject, _) = events(&recto, "filter_scan", 12).await;
    let filter = r#"stream = "filter_scan" AND kind = "third""#;
    let error = subject.text(filter, "").await.unwrap_err();
    assert_eq!(error.kind(), recto::ErrorKind::NoPlan);
    assert!(error.to_string().contains("allow_filter_scan"), "{error}");
    let query = subject.text(filter, "").allow_filter_scan();
    assert_eq!(everything(&query, &["at"]).await, "9, 6, 3, 0");
    let filter = r#"stream = "filter_scan" AND note >= "note 7" AND (kind = "other" OR kind = "none")"#;
    assert_eq!(
        everything(&subject.text(filter, "at").allow_filter_scan(), &["at"]).await,
        "7, 8"
    );
    // A null must satisfy no condition.
    let mut subject = subject;
    subject
        .put([json!({ "stream": "filter_scan", "at": 100, "id": 0 })])
        .await;
    let filter = r#"stream = "filter_scan" AND kind < "zzz""#;
    let all: Page<DynamicRecord> = subject.text(filter, "").allow_filter_scan().await.unwrap();
    assert_eq!(all.len(), 12);
    // In a merge of partitions, the condition on `kind` must apply to each partition.
    let filter = r#"(stream = "filter_scan" OR stream = "filter_scan none") AND kind = "third""#;
    assert_eq!(
        everything(&subject.text(filter, "at").allow_filter_scan(), &["at"]).await,
        "0, 3, 6, 9"
    );
}

pub(crate) async fn a_sort_that_stops_early(recto: Recto) {
    let mut subject = Subject::new(&recto, "events");
    let rows = [(1, 1), (1, 2), (2, 1), (2, 2)];
    subject
        .put(rows.map(|(at, id)| json!({ "stream": "early", "at": at, "id": id })))
        .await;
    let found = |sort: &str| subject.text(r#"stream = "early""#, sort);
    assert_eq!(everything(&found(""), &["at", "id"]).await, "2 1, 2 2, 1 1, 1 2");
    assert_eq!(
        everything(&found("at desc"), &["at", "id"]).await,
        "2 1, 2 2, 1 1, 1 2"
    );
    assert_eq!(
        everything(&found("at"), &["at", "id"]).await,
        "1 2, 1 1, 2 2, 2 1"
    );
    assert_eq!(
        everything(&found("stream desc, at"), &["at", "id"]).await,
        "1 2, 1 1, 2 2, 2 1"
    );
    let pinned = subject.text(r#"stream = "early" AND at = 1"#, "at, id desc");
    assert_eq!(everything(&pinned, &["at", "id"]).await, "1 2, 1 1");
}

pub(crate) async fn filters_built_in_rust_are_the_filters_written(recto: Recto) {
    let (subject, _) = events(&recto, "built", 9).await;
    let stream = || field("stream").equal_to("built");
    let pairs = [
        (stream().and(field("at").between(2, 4)), "at >= 2 AND at <= 4"),
        (stream().and(field("at").any_of([1, 3])), "(at = 1 OR at = 3)"),
        (stream().and(field("at").greater_than(6)), "at > 6"),
        (stream().and(field("at").less_than("3")), "at < 3"),
        (
            stream().and(tuple(["at", "id"], Operator::Less, [3, 1])),
            "(at, id) < (3, 1)",
        ),
    ];
    for (built, written) in pairs {
        let built = subject
            .collection
            .query()
            .matching(built)
            .then_by("at", Direction::Ascending);
        let written = subject.text(&format!(r#"stream = "built" AND {written}"#), "at");
        let (built_page, written_page) = (
            built.first(2).await.unwrap(),
            written.clone().first(2).await.unwrap(),
        );
        assert_eq!(times(&built_page), times(&written_page));
        // The query built in Rust and the query written as text are the same, so each must accept
        // the other's cursors.
        if let Some(cursor) = built_page.next_cursor() {
            written.page_token(cursor).await.unwrap();
        }
    }
}

pub(crate) async fn several_filters_all_hold(recto: Recto) {
    let mut subject = Subject::new(&recto, "events");
    let row = |stream: &str, id: i32| json!({ "stream": stream, "at": 1, "id": id });
    subject
        .put([row("both a", 1), row("both a", 2), row("both b", 1)])
        .await;
    let query = subject.collection.query().filter(r#"stream = "both a""#);
    let page = query
        .clone()
        .filter("")
        .filter("at = 1 AND id = 2")
        .await
        .unwrap();
    assert_eq!(words(&page, &["stream", "id"]), "both a 2");
    // Contradictory filters must give an empty page: the second filter must not replace the first.
    let page = query.clone().filter(r#"stream = "both b""#).await.unwrap();
    assert!(page.is_empty());
    // The last sort must replace the earlier one.
    let page = query.order_by("at desc").order_by("at, id desc").await.unwrap();
    assert_eq!(words(&page, &["id"]), "2, 1");
}

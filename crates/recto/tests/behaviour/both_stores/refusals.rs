//! Tests of the errors of rejected queries. An error contains the reason, the position in the text,
//! and a remedy.

use recto::schema::Schema;
use recto::{Error, ErrorKind, Recto};

use crate::common::Subject;

/// Asserts that the schema stays valid with the view that the error suggests, and that this view
/// has the given name and order.
fn assert_pastes(recto: &Recto, error: &Error, name: &str, order: &[&str]) {
    let hint = error.hint().unwrap();
    let (_, pasted) = hint.split_once('\n').unwrap();
    assert_eq!(error.suggestion().unwrap().declaration(), pasted);
    let schema = format!("{}\n{pasted}", recto.schema().to_toml());
    let parsed = Schema::parse(&schema).unwrap_or_else(|errors| panic!("{errors}\n{schema}"));
    let collection = parsed.collection("events").unwrap();
    let added = collection.view(name).unwrap_or_else(|| panic!("{hint}"));
    let found: Vec<String> = added.order.iter().map(ToString::to_string).collect();
    assert_eq!(found, order, "{hint}");
}

pub(crate) async fn name_the_view_that_would_serve(recto: Recto) {
    let subject = Subject::new(&recto, "events");
    for (filter, sort, view, order) in [
        (r#"kind = "third""#, "", "by_kind", vec!["stream", "at", "id"]),
        (r#"kind = "third""#, "at desc", "by_kind", vec!["-at"]),
        (
            r#"kind = "third" AND stream = "x""#,
            "note, at desc",
            "by_stream_kind",
            vec!["note", "-at"],
        ),
        (r#"stream = "x" AND note > "a""#, "", "by_stream", vec!["note"]),
        (
            r#"kind = "third" AND (at, id) > (1, 2)"#,
            "",
            "by_kind",
            vec!["at", "id"],
        ),
        (r#"kind = "a" OR kind = "b""#, "at", "by_kind", vec!["at"]),
    ] {
        let error = subject.text(filter, sort).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoPlan, "{filter} / {sort}");
        assert_pastes(&recto, &error, view, &order);
    }
    // If no condition could fix a partition, the error must suggest a view with all records in one
    // partition, divided into buckets.
    for (filter, sort, view, order) in [
        ("at > 3", "", "by_at", vec!["at"]),
        ("", "", "all", vec!["stream", "at", "id"]),
        ("", "at desc, id", "by_at_id", vec!["-at", "id"]),
    ] {
        let error = subject.text(filter, sort).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoPlan);
        let hint = error.hint().unwrap();
        assert!(hint.starts_with("add `stream = …` to the filter"), "{hint}");
        assert!(hint.contains("scan") && hint.contains("bucket = "), "{hint}");
        assert_pastes(&recto, &error, view, &order);
    }
    // The collection has the sort fields in other directions than the query, so the error must
    // suggest a view.
    let error = subject.text(r#"stream = "x""#, "at, id").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlan);
    assert!(error.to_string().contains("another direction"), "{error}");
    assert_pastes(&recto, &error, "by_stream", &["at", "id"]);
}

pub(crate) async fn of_what_is_not_a_query_point_at_it(recto: Recto) {
    let subject = Subject::new(&recto, "events");
    for (filter, sort, column, part) in [
        (r#"stram = "x""#, "", 1, "stram"),
        (r#"stream = "x" AND at = "noon""#, "", 23, "at"),
        (r#"stream = "x" AND at != 3"#, "", 21, "!="),
        (r#"stream = "x" OR at = 3"#, "", 17, "OR"),
        ("stream = 3", "", 10, "stream"),
        (r#"stream = "x" AND startsWith(at, "1")"#, "", 29, "startsWith"),
        (r#"stream = "x"#, "", 10, ""),
        (r#"stream = "x""#, "att", 1, "att"),
        (r#"stream = "x""#, "at down", 4, ""),
        (r#"stream = "x""#, "at, at desc", 5, "twice"),
    ] {
        let error = subject.text(filter, sort).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuery, "{filter} / {sort}");
        assert_eq!(error.column(), Some(column), "{filter} / {sort}: {error}");
        assert!(error.to_string().contains(part), "{filter} / {sort}: {error}");
    }
}

pub(crate) async fn of_too_much(recto: Recto) {
    let subject = Subject::new(&recto, "events");
    let list = |name: &str, count: i32| {
        let values: Vec<String> = (0..count).map(|value| format!("{name} = {value}")).collect();
        format!("({})", values.join(" OR "))
    };
    // Recto must reject 129 values, 20 x 20 sources (row ranges), and a text of more than 8 KiB.
    let stream = r#"stream = "x""#;
    let error = subject
        .text(&format!("{stream} AND {}", list("at", 129)), "")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("128"), "{error}");
    let filter = format!("{stream} AND {} AND {}", list("at", 20), list("id", 20));
    let error = subject.text(&filter, "").await.unwrap_err();
    assert!(error.to_string().contains("128 sources"), "{error}");
    let filter = format!(r#"stream = "{}""#, "x".repeat(9_000));
    let error = subject.text(&filter, "").await.unwrap_err();
    assert!(error.hint().is_some(), "{error}");
    // Recto must accept the maximum number of values.
    let page = subject
        .text(&format!("{stream} AND {}", list("at", 127)), "")
        .await
        .unwrap();
    assert!(page.is_empty());
}

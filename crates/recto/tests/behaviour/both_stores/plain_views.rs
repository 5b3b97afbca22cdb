//! Tests of views of records that are never updated. Recto writes and deletes the rows of the views
//! together with the records.

use std::time::Duration;

use recto::{Collection, ErrorKind, Page, Record, Recto};

use crate::common::exact::assert_views_are_exact;
use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind};

const SCHEMA: &str = r#"
[collection.visits]
fields = { user = "text", at = "bigint", page = "text", from = "text", note = "text" }
key = ["user", "at"]
partition = ["user"]
order = ["-at"]
writes = "append"

[collection.visits.view.by_page]
partition = ["page"]
order = ["-at"]

[collection.visits.view.by_source]
partition = ["page"]
order = ["from"]
fields = []

[collection.readings]
fields = { sensor = "text", slot = "int", value = "int", unit = "text" }
key = ["sensor", "slot"]
partition = ["sensor"]
order = ["slot"]
writes = "overwrite"

[collection.readings.view.by_slot]
partition = ["slot"]
order = ["-sensor"]
"#;

#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "visits", key = ["user", "at"], partition = ["user"], order = ["-at"], writes = "append")]
struct Visit {
    user: String,
    at: i64,
    page: Option<String>,
    from: Option<String>,
    note: Option<String>,
}

/// Record type of an older program, which does not know a field that a view of `visits` sorts by.
#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "visits", key = ["user", "at"], partition = ["user"], order = ["-at"], writes = "append")]
struct Seen {
    user: String,
    at: i64,
    page: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "readings", key = ["sensor", "slot"], partition = ["sensor"], order = ["slot"], writes = "overwrite")]
struct Reading {
    sensor: String,
    slot: i32,
    value: Option<i32>,
    unit: Option<String>,
}

/// Record type of an older program, which knows only some fields of a reading.
#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "readings", key = ["sensor", "slot"], partition = ["sensor"], order = ["slot"], writes = "overwrite")]
struct Bare {
    sensor: String,
    slot: i32,
    value: Option<i32>,
}

fn visit(user: &str, at: i64, page: &str, from: Option<&str>) -> Visit {
    Visit {
        user: user.to_owned(),
        at,
        page: Some(page.to_owned()),
        from: from.map(str::to_owned),
        note: None,
    }
}

fn reading(sensor: &str, slot: i32, value: Option<i32>) -> Reading {
    Reading {
        sensor: sensor.to_owned(),
        slot,
        value,
        unit: Some("m".to_owned()),
    }
}

async fn store(recto: &Recto) -> Recto {
    let recto = Fresh::new(kind_of(recto)).open().await;
    recto.apply(&parse(SCHEMA)).await.unwrap();
    recto
}

async fn of_page(visits: &Collection<Visit>, page: &str) -> Vec<(String, i64)> {
    let query = visits
        .query()
        .filter(format!(r#"page = "{page}""#))
        .order_by("-at");
    let page: Page<Visit> = query.await.unwrap();
    page.iter().map(|one| (one.user.clone(), one.at)).collect()
}

pub(crate) async fn appended_records_come_and_go_with_their_entries(recto: Recto) {
    let recto = store(&recto).await;
    let visits = recto.collection::<Visit>().unwrap();
    visits.put(&visit("ada", 1, "home", None)).await.unwrap();
    let more = [
        visit("bob", 2, "home", Some("mail")),
        visit("ada", 3, "shop", None),
    ];
    visits.put_all(&more).await.unwrap();
    assert_eq!(
        of_page(&visits, "home").await,
        [("bob".to_owned(), 2), ("ada".to_owned(), 1)]
    );
    // A repeated put must succeed and change nothing.
    visits.put(&visit("ada", 1, "home", None)).await.unwrap();
    assert_eq!(assert_views_are_exact(&recto, "visits").await, 3);
    // A deletion has only the key of a record, so Recto must read the record to find its rows in
    // the views.
    visits.delete(("ada", 1)).await.unwrap();
    visits.delete(("eve", 1)).await.unwrap();
    assert_eq!(of_page(&visits, "home").await, [("bob".to_owned(), 2)]);
    assert_eq!(assert_views_are_exact(&recto, "visits").await, 2);
    visits.put(&visit("ada", 1, "shop", Some("mail"))).await.unwrap();
    assert_eq!(
        of_page(&visits, "shop").await,
        [("ada".to_owned(), 3), ("ada".to_owned(), 1)]
    );
    // A batch must execute its changes in the given order.
    let mut batch = recto.batch();
    batch.put(&visits, &visit("eve", 9, "home", None)).unwrap();
    batch.delete(&visits, ("eve", 9)).unwrap();
    batch.delete(&visits, ("bob", 2)).unwrap();
    batch.put(&visits, &visit("bob", 2, "shop", None)).unwrap();
    batch.commit().await.unwrap();
    assert!(of_page(&visits, "home").await.is_empty());
    let mut batch = recto.batch();
    batch.each_for_itself();
    for at in 20..60 {
        batch.put(&visits, &visit("eve", at, "home", None)).unwrap();
    }
    batch.delete(&visits, ("ada", 1)).unwrap();
    batch.commit().await.unwrap();
    assert_eq!(assert_views_are_exact(&recto, "visits").await, 42);
}

pub(crate) async fn another_appended_record_is_a_conflict_in_views_too(recto: Recto) {
    if kind_of(&recto) == Kind::Cassandra {
        return;
    }
    let recto = store(&recto).await;
    let visits = recto.collection::<Visit>().unwrap();
    visits.put(&visit("ada", 1, "home", None)).await.unwrap();
    for other in [
        visit("ada", 1, "shop", None),
        visit("ada", 1, "home", Some("mail")),
    ] {
        let error = visits.put(&other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let error = visits
            .put_all(&[visit("bob", 1, "home", None), other])
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.change()), (ErrorKind::Conflict, Some(1)));
    }
    assert_eq!(assert_views_are_exact(&recto, "visits").await, 1);
    // A record that is put several times must live for the longest of its lifetimes, and so must
    // its rows in views.
    visits
        .put_for(&visit("ada", 1, "home", None), Duration::from_secs(1))
        .await
        .unwrap();
    visits
        .put_for(&visit("bob", 1, "home", None), Duration::from_secs(1))
        .await
        .unwrap();
    visits
        .put_for(&visit("bob", 1, "home", None), Duration::from_secs(100))
        .await
        .unwrap();
    visits
        .put_for(&visit("eve", 1, "home", None), Duration::from_secs(1))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(assert_views_are_exact(&recto, "visits").await, 2);
}

pub(crate) async fn keeps_entries_exact_for_types_with_fewer_fields(recto: Recto) {
    let recto = store(&recto).await;
    let (visits, seen) = (
        recto.collection::<Visit>().unwrap(),
        recto.collection::<Seen>().unwrap(),
    );
    let known = |at| Seen {
        user: "ada".to_owned(),
        at,
        page: Some("home".to_owned()),
    };
    visits.put(&visit("ada", 1, "home", Some("mail"))).await.unwrap();
    seen.put(&known(1)).await.unwrap();
    seen.put(&known(2)).await.unwrap();
    assert_eq!(
        visits.get(("ada", 1)).await.unwrap(),
        Some(visit("ada", 1, "home", Some("mail")))
    );
    assert_eq!(assert_views_are_exact(&recto, "visits").await, 2);
    seen.delete(("ada", 1)).await.unwrap();
    assert_eq!(assert_views_are_exact(&recto, "visits").await, 1);
}

pub(crate) async fn overwritten_records_are_so_in_views(recto: Recto) {
    let recto = store(&recto).await;
    let readings = recto.collection::<Reading>().unwrap();
    let bare = recto.collection::<Bare>().unwrap();
    readings.put(&reading("a", 1, Some(7))).await.unwrap();
    readings.put(&reading("b", 1, Some(8))).await.unwrap();
    readings.put(&reading("a", 1, None)).await.unwrap();
    assert_eq!(assert_views_are_exact(&recto, "readings").await, 2);
    let page = readings.query().filter("slot = 1").await.unwrap();
    assert_eq!(page.items(), [reading("b", 1, Some(8)), reading("a", 1, None)]);
    // A put by a program that knows fewer fields must not change the other fields, neither in the
    // view nor in the record.
    let known = |sensor: &str, value| Bare {
        sensor: sensor.to_owned(),
        slot: 1,
        value: Some(value),
    };
    bare.put(&known("a", 9)).await.unwrap();
    bare.put(&known("c", 9)).await.unwrap();
    let page = readings
        .query()
        .filter("slot = 1")
        .order_by("sensor")
        .await
        .unwrap();
    assert_eq!(page.items()[0], reading("a", 1, Some(9)));
    assert_eq!(assert_views_are_exact(&recto, "readings").await, 3);
    readings.delete(("a", 1)).await.unwrap();
    readings.delete(("z", 1)).await.unwrap();
    readings
        .put_for(&reading("b", 1, Some(1)), Duration::from_secs(1))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(assert_views_are_exact(&recto, "readings").await, 1);
}

pub(crate) async fn rejects_oversized_records_as_a_whole(recto: Recto) {
    let recto = store(&recto).await;
    let visits = recto.collection::<Visit>().unwrap();
    let page = "x".repeat(9_000);
    let error = visits.put(&visit("ada", 1, &page, None)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(
        error.message().contains("view by_page: page is too large"),
        "{error}"
    );
    // The record and its row in the view together need twice the space, and may therefore exceed
    // Cassandra's limit.
    let large = Visit {
        note: Some("x".repeat(30 << 10)),
        ..visit("ada", 1, "home", None)
    };
    if kind_of(&recto) == Kind::Cassandra {
        let error = visits.put(&large).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert!(error.hint().is_some(), "{error}");
        assert_eq!(assert_views_are_exact(&recto, "visits").await, 0);
    } else {
        visits.put(&large).await.unwrap();
        assert_eq!(assert_views_are_exact(&recto, "visits").await, 1);
    }
}

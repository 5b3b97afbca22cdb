//! Tests of copies from the embedded store to Cassandra and vice versa.

use recto::session::CopyRequest;
use recto::{DynamicRecord, ErrorKind, OpenOptions};

use super::TESTS;
use super::support::{CUSTOMERS, ORDERS, assert_is_copy, copy, filled, filled_and_empty, order};
use crate::common::{Fresh, Kind, Scope, run};

/// Returns the index of an order's customer in [`CUSTOMERS`], or the length of the list if the
/// order has no customer.
fn place(order: &DynamicRecord) -> usize {
    let customer = order.to_json().get("customer").cloned();
    let is_it = |name: &&str| customer.as_ref().is_some_and(|customer| customer == *name);
    CUSTOMERS.iter().position(is_it).unwrap_or(CUSTOMERS.len())
}

/// Checks that a copy has all records of its source, and that cursors of the source continue on the
/// copy.
async fn all_goes_over(from: Kind, to: Kind) {
    let _scope = Scope::new(&TESTS);
    let ((_, source), target) = (filled(from).await, Fresh::new(to));
    let queries = |recto: &recto::Recto| {
        let orders = recto.dynamic("orders").unwrap().query();
        let events = recto.dynamic("events").unwrap().query();
        let by_status = orders
            .clone()
            .filter(r#"status = "paid""#)
            .order_by("due desc")
            .page_size(20);
        let by_customer = orders.clone().filter(r#"status = "paid""#).page_size(20);
        let by_customer = by_customer.order_by("customer");
        let whole = orders.order_by("id").page_size(30);
        let of_a_day = events.filter("day = 1").page_size(25);
        [by_status, by_customer, whole, of_a_day]
    };
    let mut pages = Vec::new();
    for query in queries(&source) {
        let first = query.clone().await.unwrap();
        let cursor = first.next_cursor().unwrap();
        let next = query.after(cursor.clone()).await.unwrap();
        pages.push((cursor, next.items().to_vec()));
    }

    let opened = target.open().await;
    let report = copy(&source, &opened).await.unwrap();
    assert!(report.is_equal() && report.cursors_go_on, "{report:?}");
    let rows: Vec<(&str, u64)> = report
        .collections
        .iter()
        .map(|one| (&*one.name, one.target.ending))
        .collect();
    assert_eq!(rows, [("orders", 0), ("events", 30), ("settings", 0)]);
    assert_is_copy(&source, &opened).await;

    // Cursors of the source must continue in the copy, even in another process.
    for recto in [&opened, &target.open_if_many().await.unwrap_or(opened.clone())] {
        for (query, (cursor, expected)) in queries(recto).into_iter().zip(&pages) {
            let page = query.after(cursor.clone()).await.unwrap();
            assert_eq!(page.items(), expected);
        }
    }
    let [_, by_customer, ..] = queries(&opened);
    let all = by_customer.page_size(1_000).await.unwrap();
    let places: Vec<usize> = all.items().iter().map(place).collect();
    assert!(
        places.len() > 200 && places.is_sorted(),
        "as people sort them: {places:?}"
    );
    // Versions of the source must be valid in the copy, and increase there.
    let (here, there) = (
        source.dynamic("orders").unwrap(),
        opened.dynamic("orders").unwrap(),
    );
    for id in [3, 8, ORDERS - 1] {
        let version = here.get_versioned(id).await.unwrap().unwrap().version.unwrap();
        let changed = order(&opened, id, "sent");
        let error = there.put(&changed).if_version(version - 1).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.version()),
            (ErrorKind::Changed, Some(version))
        );
        let now = there.put(&changed).if_version(version).await.unwrap().version;
        assert!(now > version);
    }
    // The copy is a normal store with records, so a second copy into it must be rejected.
    let error = copy(&source, &opened).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
}

impl Fresh {
    /// Returns another handle of the store, or `None` if the store allows only one process.
    async fn open_if_many(&self) -> Option<recto::Recto> {
        (self.kind == Kind::Cassandra).then_some(())?;
        Some(self.open_with(OpenOptions::new()).await)
    }
}

#[test]
fn embedded_to_embedded() {
    run(all_goes_over(Kind::Embedded, Kind::Embedded));
}

#[test]
fn embedded_to_cassandra() {
    run(all_goes_over(Kind::Embedded, Kind::Cassandra));
}

#[test]
fn cassandra_to_embedded() {
    run(all_goes_over(Kind::Cassandra, Kind::Embedded));
}

#[test]
#[ignore = "slow: three minutes on Cassandra"]
fn cassandra_to_cassandra() {
    run(all_goes_over(Kind::Cassandra, Kind::Cassandra));
}

/// Checks that copying some collections into a store with other collections keeps the cursor keys
/// of that store.
#[test]
fn a_named_collection_into_a_store_with_others() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let (source, target) = filled_and_empty(Kind::Embedded).await;
        let other = "[collection.other]\nfields = { id = \"int\" }\nkey = [\"id\"]\n";
        target.apply(&crate::common::stores::parse(other)).await.unwrap();
        let keys = target.export_cursor_keys();
        let request = CopyRequest {
            collections: vec!["events".into()],
            rows_per_second: Some(1_000_000),
        };
        let report = source.copy_to(&target, &request, &|_| {}).await.unwrap();
        assert!(report.is_equal() && !report.cursors_go_on);
        assert_eq!(report.collections.len(), 1);
        let names: Vec<String> = target
            .schema()
            .collections
            .iter()
            .map(|one| one.name.clone())
            .collect();
        assert_eq!(names, ["events", "other"]);
        assert_eq!(target.export_cursor_keys(), keys);
    });
}

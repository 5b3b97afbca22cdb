//! Tests of copies between stores that are rejected before any change, and of the reports of
//! copies.

use std::future::IntoFuture;

use recto::schema::Schema;
use recto::session::{ApplyOptions, CopyRequest};
use recto::{ErrorKind, Recto};

use super::TESTS;
use super::support::{apply, assert_is_copy, copy, filled_and_empty, order};
use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, run};

async fn refuses_what_is_not_empty(kind: Kind) {
    let _scope = Scope::new(&TESTS);
    let (source, target) = filled_and_empty(kind).await;
    apply(&target).await;
    let keys = target.export_cursor_keys();
    let orders = target.dynamic("orders").unwrap();
    orders.put(&order(&target, 7, "mine")).await.unwrap();
    let refused = async |target: &Recto| {
        let error = copy(&source, target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
        assert!(
            error.message().contains("has records of collection orders"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("apply --remove orders"), "{error}");
    };
    refused(&target).await;
    assert_eq!(target.export_cursor_keys(), keys);
    assert_eq!(target.generation(), 1);
    assert!(
        target
            .dynamic("events")
            .unwrap()
            .get((1, 1))
            .await
            .unwrap()
            .is_none()
    );
    // On Cassandra, a deleted record leaves a row, so that its version continues to increase. The
    // target is therefore still not empty.
    orders.delete(7).await.unwrap();
    if kind == Kind::Cassandra {
        refused(&target).await;
        return;
    }
    let report = copy(&source, &target).await.unwrap();
    assert!(
        report.is_equal() && report.cursors_go_on,
        "its own keys gave way: {report:?}"
    );
    assert_is_copy(&source, &target).await;
}

#[test]
fn an_embedded_store_that_has_records() {
    run(refuses_what_is_not_empty(Kind::Embedded));
}

#[test]
fn a_cassandra_store_that_has_records() {
    run(refuses_what_is_not_empty(Kind::Cassandra));
}

#[test]
fn rejects_other_schemas_missing_collections_and_itself() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let (source, target) = (
            Fresh::new(Kind::Embedded).open().await,
            Fresh::new(Kind::Embedded).open().await,
        );
        apply(&source).await;
        let other =
            "[collection.settings]\nfields = { name = \"text\", value = \"int\" }\nkey = [\"name\"]\n";
        target.apply(&parse(other)).await.unwrap();
        let error = copy(&source, &target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert!(error.message().contains("with another declaration"), "{error}");
        assert_eq!(target.schema().collections.len(), 1);
        let request = CopyRequest {
            collections: vec!["order".into()],
            ..CopyRequest::default()
        };
        let error = source.copy_to(&target, &request, &|_| {}).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.hint()),
            (ErrorKind::NotFound, Some("did you mean orders?"))
        );
        let error = copy(&source, &source).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    });
}

/// Checks that a collection that was copied and then removed is copied again, although a checkpoint
/// records it as copied. No hint may recommend to remove the copied records.
#[test]
fn copies_a_removed_collection_again() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let (source, target) = filled_and_empty(Kind::Embedded).await;
        let orders = source.dynamic("orders").unwrap();
        let late = order(&source, 9_999, "late");
        let progress = |progress: recto::session::CopyProgress| {
            if progress.step == "copying" && progress.collection == "settings" {
                block_on_elsewhere(orders.put(&late));
            }
        };
        let request = CopyRequest::default();
        let report = source.copy_to(&target, &request, &progress).await.unwrap();
        assert!(!report.is_equal(), "so that it is still known how far it was");
        for removed in ["orders", "events"] {
            let options = ApplyOptions::new().remove(removed);
            target.apply_with(&Schema::default(), &options).await.unwrap();
        }
        // Before the copy, another program declares the collection `events`, but not `orders`.
        let declared = source.schema();
        let mut of_events = Schema::clone(&declared);
        of_events.collections.retain(|one| one.name == "events");
        target.apply(&of_events).await.unwrap();
        let again = copy(&source, &target).await.unwrap();
        assert!(again.is_equal(), "{again:?}");
        assert_is_copy(&source, &target).await;
        let error = copy(&source, &target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists);
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("an earlier copy ended well") && hint.contains("removes the original records"),
            "{hint}"
        );
    });
}

/// Checks that a copy rejects records with equal values in a field that the target declares unique.
#[test]
fn fields_that_are_not_unique_yet() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let (source, target) = (
            Fresh::new(Kind::Embedded).open().await,
            Fresh::new(Kind::Embedded).open().await,
        );
        let schema = "[collection.users]\nfields = { id = \"int\", email = \"text\" }\nkey = [\"id\"]\nwrites = \"update\"\n";
        source.apply(&parse(schema)).await.unwrap();
        let users = source.dynamic("users").unwrap();
        for id in 0..2 {
            let user = serde_json::json!({ "id": id, "email": "one" }).to_string();
            let user = recto::DynamicRecord::from_json_text(users.definition(), &user).unwrap();
            users.put(&user).await.unwrap();
        }
        let unique = format!("{schema}unique = [\"email\"]\n");
        source.apply(&parse(&unique)).await.unwrap_err();
        let error = copy(&source, &target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        assert!(error.message().contains("the same email"), "{error}");
        assert_eq!(target.generation(), 0, "nothing was changed");
    });
}

/// Waits for a request in a separate thread, because a progress callback cannot await it.
fn block_on_elsewhere<T: Send>(call: impl IntoFuture<Output = recto::Result<T>, IntoFuture: Send> + Send) {
    std::thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        scope.spawn(move || runtime.block_on(async { call.await }).map(drop).unwrap());
    });
}

/// Checks that the report names queues, which are not copied, and a record that was written to the
/// source too late. A later copy must still recognize the copied records.
#[test]
fn reports_omitted_queues_and_late_records() {
    let _scope = Scope::new(&TESTS);
    run(async {
        let (source, target) = filled_and_empty(Kind::Embedded).await;
        let queues = source.queues().await.unwrap();
        queues
            .create("emails", recto::queues::QueueOptions::default())
            .await
            .unwrap();
        let changed = std::sync::atomic::AtomicBool::new(false);
        let orders = source.dynamic("orders").unwrap();
        let late = order(&source, 9_999, "late");
        let progress = |progress: recto::session::CopyProgress| {
            let is_late = progress.step == "copying" && progress.collection == "settings";
            if is_late && !changed.swap(true, std::sync::atomic::Ordering::Relaxed) {
                block_on_elsewhere(orders.put(&late));
            }
        };
        let report = source
            .copy_to(&target, &CopyRequest::default(), &progress)
            .await
            .unwrap();
        assert_eq!(report.left_out.len(), 1);
        assert!(report.left_out[0].starts_with("queue emails: queues are not copied"));
        assert!(!report.is_equal());
        let differ: Vec<&str> = report
            .collections
            .iter()
            .filter(|one| !one.is_equal())
            .map(|one| &*one.name)
            .collect();
        assert_eq!(differ, ["orders"]);
        assert_eq!(
            report.collections[0].source.records,
            report.collections[0].target.records + 1
        );
        // A second copy must recognize the copied rows, and compare the stores again.
        let again = copy(&source, &target).await.unwrap();
        assert!(!again.is_equal());
        source.dynamic("orders").unwrap().delete(9_999).await.unwrap();
        let again = copy(&source, &target).await.unwrap();
        assert!(again.is_equal());
        assert_eq!(again.collections[0].rows_resumed, again.collections[0].rows_read);
    });
}

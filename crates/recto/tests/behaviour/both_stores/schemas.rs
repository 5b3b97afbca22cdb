//! Tests that Recto applies or rejects schemas, and reads the schema when a store is opened again.

use recto::{ApplyOptions, ErrorKind, OpenOptions, Recto, StoreAddress};
use serde_json::json;

use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Subject};

const NOTES: &str = r#"
[collection.notes]
fields = { id = "int", text = "text" }
key = ["id"]
writes = "overwrite"
"#;

pub(crate) fn fresh(recto: &Recto) -> Fresh {
    let is_cassandra = recto.describe().starts_with("cassandra");
    Fresh::new(if is_cassandra {
        Kind::Cassandra
    } else {
        Kind::Embedded
    })
}

pub(crate) async fn applying_twice_changes_nothing(recto: Recto) {
    let own = fresh(&recto).open().await;
    assert_eq!(own.generation(), 0);
    let schema = parse(NOTES);
    let plan = own.plan(&schema).await.unwrap();
    assert_eq!((plan.generation, plan.rejected.len()), (0, 0));
    assert!(
        !plan.changes.is_empty() && !plan.statements.is_empty(),
        "{plan:?}"
    );
    let applied = own.apply(&schema).await.unwrap();
    assert_eq!(applied.generation, 1);
    let again = own.apply(&schema).await.unwrap();
    assert_eq!((again.generation, again.changes.len()), (1, 0));
    let plan = own.plan(&schema).await.unwrap();
    assert!(plan.changes.is_empty() && plan.statements.is_empty(), "{plan:?}");
}

/// Schema with two collections that use the same user-defined type, and a third collection.
const PLACES: &str = r#"
[type.place]
fields = { city = "text" }

[collection.homes]
fields = { id = "int", place = "place" }
key = ["id"]
writes = "overwrite"

[collection.shops]
fields = { id = "int", place = "place" }
key = ["id"]
writes = "overwrite"
"#;

/// Checks that a plan lists all statements that `apply` will execute, in order: before the store
/// exists, before its first schema, and after it.
pub(crate) async fn a_plan_shows_all_that_is_run(recto: Recto) {
    let store = fresh(&recto);
    let schema = parse(PLACES);
    let before = recto::plan_without_store(&store.address, &schema, &ApplyOptions::new())
        .await
        .unwrap();
    assert!(before.changes[0].contains("is created"), "{before:?}");
    let own = store.open().await;
    let first = own.plan(&schema).await.unwrap().statements;
    let mut expected = match &store.address {
        StoreAddress::Cassandra(address) => vec![
            format!(
                "CREATE KEYSPACE IF NOT EXISTS \"{}\" WITH replication = {{'class': 'NetworkTopologyStrategy', \
                 'datacenter1': 1}}",
                address.keyspace
            ),
            "CREATE TABLE IF NOT EXISTS recto_catalog (".to_owned(),
            "CREATE TYPE IF NOT EXISTS place (".to_owned(),
            "CREATE TABLE IF NOT EXISTS homes (".to_owned(),
            "CREATE TABLE IF NOT EXISTS shops (".to_owned(),
        ],
        _ => ["recto_catalog", "homes", "shops"]
            .map(|name| format!("table {name}: "))
            .into(),
    };
    // Remove the keyspace and the quotes from the statements, so that the expected names do not
    // depend on the keyspace.
    let keyspace = match &store.address {
        StoreAddress::Cassandra(address) => format!("\"{}\".", address.keyspace),
        _ => String::new(),
    };
    let plain = |text: &str| match text.strip_prefix("CREATE KEYSPACE") {
        None if !keyspace.is_empty() => text.replace(&keyspace, "").replace('"', ""),
        _ => text.to_owned(),
    };
    let check = |statements: &[String], expected: &[String]| {
        assert_eq!(statements.len(), expected.len(), "{statements:#?}");
        for (statement, expected) in statements.iter().zip(expected) {
            assert!(
                plain(statement).starts_with(expected),
                "{statement} is {expected}"
            );
        }
    };
    check(&before.statements, &expected);
    if store.kind == Kind::Cassandra {
        expected.remove(0);
    }
    check(&first, &expected);

    own.apply(&schema).await.unwrap();
    let tables = own.store().list_tables().await.unwrap();
    let tables: Vec<&str> = tables.iter().map(recto_model::Table::name).collect();
    assert_eq!(tables, ["homes", "recto_catalog", "shops"]);
    let third = format!(
        "{PLACES}{}",
        &PLACES[PLACES.find("[collection.shops]").unwrap()..].replace("shops", "parks")
    );
    let expected = expected.last().unwrap().replace("shops", "parks");
    check(&own.plan(&parse(&third)).await.unwrap().statements, &[expected]);
}

pub(crate) async fn another_schema_is_refused_with_the_difference(recto: Recto) {
    let own = fresh(&recto).open().await;
    own.apply(&parse(NOTES)).await.unwrap();
    let mut notes = Subject::new(&own, "notes");
    notes.put([json!({ "id": 1, "text": "kept" })]).await;
    for (from, to, part) in [
        ("id = \"int\"", "id = \"bigint\"", "id"),
        ("text = \"text\"", "text = \"int\"", "text"),
        ("\"overwrite\"", "\"append\"", "writes"),
        ("key = [\"id\"]", "key = [\"id\", \"text\"]", "key"),
    ] {
        let other = parse(&NOTES.replace(from, to));
        let plan = own.plan(&other).await.unwrap();
        assert!(!plan.rejected.is_empty(), "{to}: {plan:?}");
        let error = own.apply(&other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{to}: {error}");
        assert!(error.to_string().contains(part), "{to}: {error}");
        assert!(error.hint().is_some(), "{to}");
    }
    assert_eq!(own.generation(), 1);
    assert!(notes.collection.get((1,)).await.unwrap().is_some());
}

pub(crate) async fn a_collection_may_be_added(recto: Recto) {
    let own = fresh(&recto).open().await;
    own.apply(&parse(NOTES)).await.unwrap();
    let mut before = Subject::new(&own, "notes");
    let both = format!("{NOTES}{}", NOTES.replace("notes", "letters"));
    let applied = own.apply(&parse(&both)).await.unwrap();
    assert_eq!((applied.generation, applied.changes.len()), (2, 1), "{applied:?}");
    Subject::new(&own, "letters").put([json!({ "id": 1 })]).await;
    // Handles opened before the second schema must continue to work.
    before.put([json!({ "id": 1 })]).await;
    assert!(before.collection.get((1,)).await.unwrap().is_some());
}

/// Checks that several servers can start concurrently on an empty store and apply the same schema.
/// All of them must then use the store's schema.
pub(crate) async fn several_who_apply_at_once(recto: Recto) {
    const APPLIERS: usize = 4;
    let store = fresh(&recto);
    let mut handles = vec![store.open().await];
    for _ in 1..APPLIERS {
        // Only one process can open an embedded store, so all handles belong to one process.
        handles.push(match store.kind {
            Kind::Cassandra => store.open().await,
            Kind::Embedded => handles[0].clone(),
        });
    }
    let schema = parse(NOTES);
    let applies = handles.iter_mut().map(|handle| handle.apply(&schema));
    for result in futures::future::join_all(applies).await {
        assert_eq!(result.unwrap().generation, 1, "the same schema is no other");
    }
    let keys = handles[0].export_cursor_keys();
    for handle in &mut handles {
        assert_eq!(handle.apply(&schema).await.unwrap().generation, 1);
        assert_eq!(
            handle.export_cursor_keys(),
            keys,
            "they open one another's cursors"
        );
    }
}

pub(crate) async fn rejects_unsupported_features_by_name(recto: Recto) {
    let own = fresh(&recto).open().await;
    let view = "[collection.notes.view.by_text]\npartition = [\"text\"]\n";
    let beyond = format!("{NOTES}\n{view}bucket = {{ target = \"1KB\" }}\n").replace("overwrite", "append");
    let schema = parse(&beyond);
    let (refused, part) = (
        own.plan(&schema).await.unwrap().rejected,
        "bucket of this size of view `by_text`",
    );
    assert!(
        refused.iter().any(|refused| refused.contains(part)),
        "{part}: {refused:?}"
    );
    let error = own.apply(&schema).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(own.generation(), 0);
    assert!(own.schema().collections.is_empty());
}

pub(crate) async fn opening_again_finds_schema_and_records(recto: Recto) {
    let store = fresh(&recto);
    let schema = parse(NOTES);
    let keys = {
        let own = store.open().await;
        own.apply(&schema).await.unwrap();
        Subject::new(&own, "notes")
            .put([json!({ "id": 1, "text": "still here" })])
            .await;
        own.export_cursor_keys()
    };
    let again = Recto::open_with(&store.address, OpenOptions::new())
        .await
        .unwrap();
    assert_eq!((again.generation(), again.schema().collections.len()), (1, 1));
    assert!(again.schema().difference(&schema).is_empty());
    assert_eq!(again.export_cursor_keys(), keys);
    assert!(again.dynamic("notes").unwrap().get((1,)).await.unwrap().is_some());
}

pub(crate) async fn reports_a_missing_store_or_collection(recto: Recto) {
    let store = fresh(&recto);
    let error = Recto::open_with(&store.address, OpenOptions::new())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.hint().unwrap().contains("apply"), "{:?}", error.hint());
    let StoreAddress::Embedded(folder) = &store.address else {
        let error = recto.dynamic("event").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.hint().unwrap().contains("events"), "{:?}", error.hint());
        return;
    };
    assert!(!folder.exists(), "looking for a store does not make it");
}

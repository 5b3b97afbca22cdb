//! Tests of misfits: records that do not fit a view or a unique constraint, for example because a
//! field is too large for a key. Recto counts and lists misfits, and they stay usable.

use std::sync::Arc;

use recto::session::{CopyRequest, MisfitCounts, PageRequest, Pages as _, VerifiedView, VerifyRequest};
use recto::store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, PointRead, ReadOptions, RowAddress, WriteOptions,
};
use recto::{ApplyOptions, Collection, DynamicRecord, Error, ErrorKind, LocalSession, OpenOptions, Recto};
use recto_model::Cells;
use serde_json::{Value as Json, json};

use crate::common::stores::{in_memory, kind_of, parse};
use crate::common::{Fresh, run};

const PEOPLE: &str = r#"
[collection.people]
fields = { id = "int", city = "text", name = "text", note = "text" }
key = ["id"]
writes = "update"
"#;

const BY_CITY: &str = r#"
[collection.people.view.by_city]
partition = ["city"]
order = ["name"]
"#;

const UNIQUE_CITY: &str = "unique = [\"city\"]\n";

/// Expected counts for one misfit, whose name is too large for the view's key.
const ONE_TOO_LARGE: MisfitCounts = MisfitCounts {
    empty: 0,
    too_large: 1,
};

fn long_name() -> String {
    "x".repeat(9_000)
}

fn person(people: &Collection<DynamicRecord>, id: i32, city: Option<&str>, name: &str) -> DynamicRecord {
    let record = json!({ "id": id, "city": city, "name": name });
    DynamicRecord::from_json(people.definition(), record.as_object().unwrap()).unwrap()
}

/// Creates a collection without views, with one record that does not fit the view that the test
/// adds later.
async fn people(own: &Recto, mode: &str) -> Collection<DynamicRecord> {
    own.apply(&parse(&PEOPLE.replace("update", mode))).await.unwrap();
    let people = own.dynamic("people").unwrap();
    let long = long_name();
    for (id, city, name) in [
        (1, Some(""), "a"),
        (3, Some("B"), &*long),
        (5, Some("B"), "y"),
        (6, None, "z"),
    ] {
        people.put(&person(&people, id, city, name)).await.unwrap();
    }
    people
}

fn with_view(mode: &str) -> recto::schema::Schema {
    parse(&format!("{}{BY_CITY}", PEOPLE.replace("update", mode)))
}

/// Returns the ids of the records whose city is `city`, which the view finds.
async fn ids_of(people: &Collection<DynamicRecord>, city: &str) -> Result<Vec<Json>, Error> {
    let page = people.query().filter(format!("city = {city:?}")).await?;
    Ok(page
        .items()
        .iter()
        .map(|one| one.to_json()["id"].clone())
        .collect())
}

async fn verify(own: &Recto, repair: bool) -> (VerifiedView, u64) {
    let request = VerifyRequest {
        repair,
        ..VerifyRequest::default()
    };
    let report = own.verify(&request, &|_| {}).await.unwrap();
    assert_eq!(report.wrong(), report.left(), "{report:?}");
    (report.views[0].clone(), report.wrong())
}

/// Checks that a view is added despite misfits only if the options allow misfits, and that the view
/// then reports them.
async fn adds_a_view(own: Recto, mode: &str) {
    let people = people(&own, mode).await;
    let (schema, before) = (with_view(mode), own.generation());
    let plan = own.plan(&schema).await.unwrap();
    assert_eq!(plan.misfits[0].counts, ONE_TOO_LARGE, "{plan:?}");
    assert_eq!(plan.misfits[0].listed.len(), 1);
    for said in ["people.by_city: 1 record", "(3): name is too large"] {
        assert!(plan.rejected[0].contains(said), "{said} in {:?}", plan.rejected);
    }
    let refused = own.apply(&schema).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SchemaMismatch, "{refused}");
    assert_eq!(own.generation(), before);
    assert!(own.views().await.unwrap().is_empty());

    let options = ApplyOptions::new().allow_misfits();
    let applied = own.apply_with(&schema, &options).await.unwrap();
    assert_eq!(applied.misfits, plan.misfits);
    let status = own.views().await.unwrap().remove(0);
    assert_eq!((&*status.state, status.misfits), ("ready", ONE_TOO_LARGE));
    let (found, wrong) = verify(&own, false).await;
    assert_eq!(
        (found.misfits, found.misfits_recorded),
        (ONE_TOO_LARGE, ONE_TOO_LARGE)
    );
    assert_eq!((found.records, found.entries, wrong), (2, 2, 0), "{found:?}");
    let [example] = &found.examples[..] else {
        panic!("one misfit: {found:?}");
    };
    assert_eq!(example.kind, "misfit");
    assert!(example.outcome.starts_with("name is too large"), "{example:?}");

    assert_eq!(ids_of(&people, "").await.unwrap(), [json!(1)]);
    assert_eq!(ids_of(&people, "B").await.unwrap(), [json!(5)]);
    let request = PageRequest {
        filter: "city = \"B\"".into(),
        ..PageRequest::default()
    };
    let session = LocalSession::new(own.clone());
    let explained = session.explain("people", &request, false).await.unwrap();
    assert_eq!(explained.misfits, ONE_TOO_LARGE);
    assert_eq!(session.page("people", &request).await.unwrap().lacks, 1);
}

/// Asserts that a change was rejected because the record would then not fit a view or a unique
/// constraint (a misfit). The error must have the kind `kind` and name `field`. Its message must
/// contain `says`, and its hint must say that nothing was written.
fn assert_misfit(error: &Error, field: &str, kind: ErrorKind, says: &str) {
    assert_eq!((error.kind(), error.field()), (kind, Some(field)), "{error}");
    assert!(error.message().contains(says), "{error}");
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("nothing was written")),
        "{error:?}"
    );
}

async fn changes_misfits(own: Recto) {
    let people = people(&own, "update").await;
    let options = ApplyOptions::new().allow_misfits();
    own.apply_with(&with_view("update"), &options).await.unwrap();
    // Records 1 and 3 do not fit the view. A change of their other fields must succeed, even of
    // fields in the view, and so must a put of the same record.
    people.update(1).set("name", "b").await.unwrap();
    people.update(3).set("note", "kept").await.unwrap();
    people.update(3).set("city", "C").await.unwrap();
    people.put(&person(&people, 1, Some(""), "b")).await.unwrap();
    assert_eq!(people.get(1).await.unwrap().unwrap().to_json()["name"], "b");
    people.update(5).set("city", "").await.unwrap();
    people.put(&person(&people, 7, Some(""), "new")).await.unwrap();
    assert_eq!(ids_of(&people, "").await.unwrap(), [json!(1), json!(7), json!(5)]);
    // Recto must reject a change after which a record would no longer fit the view.
    let large = people.update(5).set("name", &*long_name()).await.unwrap_err();
    assert_misfit(
        &large,
        "name",
        ErrorKind::LimitExceeded,
        "does not fit view by_city: name is too large",
    );
    let other = people
        .update(3)
        .set("name", &*"y".repeat(9_000))
        .await
        .unwrap_err();
    assert_misfit(&other, "name", ErrorKind::LimitExceeded, "name is too large");
    // After a change that makes a record fit, the view must contain it.
    people.update(1).set("city", "A").await.unwrap();
    assert_eq!(ids_of(&people, "A").await.unwrap(), [json!(1)]);
    people.delete(3).await.unwrap();
    // Every record fits the view now, so the verification must reset the recorded number of
    // misfits.
    let (found, wrong) = verify(&own, true).await;
    let none = MisfitCounts::default();
    assert_eq!((found.misfits, found.misfits_recorded, wrong), (none, none, 0));
    assert_eq!(own.views().await.unwrap()[0].misfits, none);
    assert_eq!(ids_of(&people, "").await.unwrap(), [json!(7), json!(5)]);
    assert_eq!(verify(&own, false).await.0.records, 3);
}

async fn adds_a_unique_constraint(own: Recto) {
    let people = people(&own, "update").await;
    let city = "c".repeat(9_000);
    people.update(3).set("city", &*city).await.unwrap();
    people.put(&person(&people, 7, Some("D"), "b")).await.unwrap();
    let schema = parse(&format!("{PEOPLE}{UNIQUE_CITY}"));
    let refused = own.apply(&schema).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SchemaMismatch, "{refused}");
    assert!(
        refused.message().contains("people.unique (city): 1 record"),
        "{refused}"
    );
    let options = ApplyOptions::new().allow_misfits();
    let applied = own.apply_with(&schema, &options).await.unwrap();
    assert_eq!(applied.misfits[0].counts, ONE_TOO_LARGE, "{applied:?}");
    let (found, wrong) = verify(&own, false).await;
    assert_eq!(
        (&*found.view, found.misfits, wrong),
        ("unique (city)", ONE_TOO_LARGE, 0)
    );
    // If a record's city is too large for the constraint, its other fields can still change. Recto
    // must reject another record with a city of that size.
    people.update(1).set("note", "kept").await.unwrap();
    people.update(3).set("note", "kept").await.unwrap();
    let large = people
        .update(7)
        .set("city", &*"d".repeat(9_000))
        .await
        .unwrap_err();
    assert_misfit(
        &large,
        "city",
        ErrorKind::LimitExceeded,
        "which is unique, cannot be stored: city is too large",
    );
    let empty = people.update(7).set("city", "").await.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::Conflict, "{empty}");
    people.update(1).set("city", "A").await.unwrap();
    let taken = people.update(7).set("city", "A").await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict, "{taken}");
    let (found, wrong) = verify(&own, true).await;
    assert_eq!(
        (found.misfits, found.misfits_recorded.total(), wrong),
        (ONE_TOO_LARGE, 1, 0)
    );
}

async fn copies_misfits(own: Recto, other: Recto, mode: &str) {
    people(&own, mode).await;
    let options = ApplyOptions::new().allow_misfits();
    own.apply_with(&with_view(mode), &options).await.unwrap();
    let request = CopyRequest::default();
    let report = own.copy_to(&other, &request, &|_| {}).await.unwrap();
    assert!(report.is_equal(), "{report:?}");
    assert_eq!(report.collections[0].target.records, 4);
    assert_eq!(report.misfits[0].counts, ONE_TOO_LARGE, "{report:?}");
    let (found, wrong) = verify(&other, false).await;
    assert_eq!(
        (found.misfits, found.misfits_recorded, wrong),
        (ONE_TOO_LARGE, ONE_TOO_LARGE, 0)
    );
    let copied = other.dynamic("people").unwrap();
    assert_eq!(ids_of(&copied, "").await.unwrap(), [json!(1)]);
    assert_eq!(ids_of(&copied, "B").await.unwrap(), [json!(5)]);
    assert!(copied.get(1).await.unwrap().is_some() && copied.get(3).await.unwrap().is_some());
}

/// Checks puts of misfits in a collection whose records have no versions. Only a read of the stored
/// record shows whether a put would add a misfit.
async fn puts_misfits_plainly(own: Recto) {
    let people = people(&own, "append").await;
    let options = ApplyOptions::new().allow_misfits();
    own.apply_with(&with_view("append"), &options).await.unwrap();
    people.put(&person(&people, 1, Some(""), "a")).await.unwrap();
    people.put(&person(&people, 8, Some(""), "new")).await.unwrap();
    assert_eq!(ids_of(&people, "").await.unwrap(), [json!(1), json!(8)]);

    let words = r#"
[collection.words]
fields = { team = "text", word = "text", note = "text" }
key = ["team", "word"]
partition = ["team"]
order = ["word"]
writes = "overwrite"
"#;
    let view = "[collection.words.view.by_word]\npartition = [\"word\"]\n";
    own.apply(&parse(words)).await.unwrap();
    let all = own.dynamic("words").unwrap();
    let word = |word: &str, note: &str| {
        let record = json!({ "team": "red", "word": word, "note": note });
        DynamicRecord::from_json(all.definition(), record.as_object().unwrap()).unwrap()
    };
    all.put(&word("", "first")).await.unwrap();
    all.put(&word(&long_name(), "first")).await.unwrap();
    let schema = parse(&format!("{words}{view}"));
    assert!(own.apply(&schema).await.is_err());
    own.apply_with(&schema, &options).await.unwrap();
    for one in [String::new(), long_name()] {
        all.put(&word(&one, "second")).await.unwrap();
        let found = all.get(("red", &*one)).await.unwrap().unwrap();
        assert_eq!(found.to_json()["note"], "second");
    }
    let new = all.put(&word(&"y".repeat(9_000), "new")).await.unwrap_err();
    assert_misfit(&new, "word", ErrorKind::LimitExceeded, "word is too large");
    all.delete(("red", "")).await.unwrap();
    all.put(&word("", "new")).await.unwrap();
}

/// Changes the catalog so that the views look as if an earlier release had created them. In such
/// views, the only partition field cannot be empty. Returns the reopened store.
async fn with_earlier_views(own: &Recto) -> Recto {
    let store = own.store();
    let tables = store.list_tables().await.unwrap();
    let catalog = tables.into_iter().find(|table| table.name() == "recto_catalog");
    let table = Arc::new(catalog.unwrap());
    let read = PointRead {
        table: Arc::clone(&table),
        partition: cells([b"schema"]),
        clustering: Cells::new(),
    };
    let row = store
        .snapshot()
        .unwrap()
        .get(&read, &ReadOptions::default())
        .await
        .unwrap();
    let row = row.rows.row(0);
    let (generation, body) = (row.get(2).unwrap(), row.get(3).unwrap());
    let earlier = String::from_utf8(body.to_vec()).unwrap().replace("form 2 ", "");
    assert_ne!(earlier.as_bytes(), body);
    let put = Operation::Put {
        clustering: Cells::new(),
        cells: cells([&4_i32.to_be_bytes()[..], generation, earlier.as_bytes()]),
        replace: true,
    };
    let cas = Cas {
        table,
        partition: cells([b"schema"]),
        conditions: vec![CasCondition {
            row: RowAddress::Row(Cells::new()),
            column: 1,
            expected: Some(generation.to_vec()),
        }],
        mutations: vec![Mutation {
            operation: put,
            stamp: None,
            ttl_seconds: None,
        }],
    };
    let outcome = store.cas(cas, WriteOptions::default()).await.unwrap();
    assert!(matches!(outcome, CasOutcome::Applied), "{outcome:?}");
    Recto::with_store(Arc::clone(store), OpenOptions::new())
        .await
        .unwrap()
}

fn cells<const N: usize>(cells: [&[u8]; N]) -> Cells {
    cells.into_iter().map(Some).collect()
}

/// Checks that a view of an earlier release rejects an empty partition value until the view is
/// created again.
#[test]
fn earlier_views_reject_an_empty_partition() {
    run(async {
        let own = in_memory(false).await;
        own.apply(&with_view("update")).await.unwrap();
        let own = with_earlier_views(&own).await;
        let people = own.dynamic("people").unwrap();
        let new = people.put(&person(&people, 1, Some(""), "a")).await.unwrap_err();
        assert_misfit(
            &new,
            "city",
            ErrorKind::InvalidRecord,
            "does not fit view by_city: city is empty",
        );
        people.put(&person(&people, 1, Some("A"), "a")).await.unwrap();
        assert_eq!(ids_of(&people, "A").await.unwrap(), [json!(1)]);
        assert!(ids_of(&people, "").await.unwrap().is_empty());
        let again = BY_CITY.replace("name", "-name");
        own.apply(&parse(&format!("{PEOPLE}{again}"))).await.unwrap();
        people.update(1).set("city", "").await.unwrap();
        assert_eq!(ids_of(&people, "").await.unwrap(), [json!(1)]);
    });
}

/// Returns a new store of the same kind as `recto`, which only one test uses.
async fn own(recto: &Recto) -> Recto {
    Fresh::new(kind_of(recto)).open().await
}

pub(crate) async fn adding_a_view_tells_of_misfits(recto: Recto) {
    adds_a_view(own(&recto).await, "update").await;
    adds_a_view(own(&recto).await, "append").await;
}

pub(crate) async fn misfits_can_be_changed(recto: Recto) {
    changes_misfits(own(&recto).await).await;
}

pub(crate) async fn adding_a_unique_constraint_tells_of_misfits(recto: Recto) {
    adds_a_unique_constraint(own(&recto).await).await;
}

pub(crate) async fn a_copy_has_the_misfits(recto: Recto) {
    for mode in ["update", "append"] {
        copies_misfits(own(&recto).await, own(&recto).await, mode).await;
    }
}

pub(crate) async fn misfits_can_be_put_plainly(recto: Recto) {
    puts_misfits_plainly(own(&recto).await).await;
}

/// Runs all misfit tests on stores in memory that, like Cassandra, have no transactions.
#[test]
fn misfits_without_transactions() {
    run(async {
        for mode in ["update", "append"] {
            adds_a_view(in_memory(false).await, mode).await;
            copies_misfits(in_memory(true).await, in_memory(false).await, mode).await;
            copies_misfits(in_memory(false).await, in_memory(true).await, mode).await;
        }
        changes_misfits(in_memory(false).await).await;
        adds_a_unique_constraint(in_memory(false).await).await;
        puts_misfits_plainly(in_memory(false).await).await;
    });
}

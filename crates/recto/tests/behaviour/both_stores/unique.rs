//! Tests of unique constraints: no two records have the same values in the fields of a constraint,
//! even if clients write concurrently.

use std::sync::Arc;
use std::time::Duration;

use recto::filter::Literal;
use recto::session::{CopyRequest, LoadRequest, Session as _, VerifyRequest};
use recto::store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, PointRead, ReadOptions, RowAddress, WriteOptions,
};
use recto::{ApplyOptions, DynamicRecord, Error, ErrorKind, LocalSession, Record, Recto, Value};
use recto_model::{Cells, Table};
use serde_json::json;

use crate::common::stores::{Kind, kind_of, parse};
use crate::common::{Fresh, Subject};

const USERS: &str = r#"
[collection.users]
fields = { name = "text", email = "text", tenant = "text", slug = "text", balance = "decimal", note = "text" }
key = ["name"]
unique = [["email"], ["tenant", "slug"], ["balance"]]

[collection.users.view.by_note]
partition = ["note"]
"#;

/// Returns the collection `users` in a new store.
async fn users(recto: &Recto) -> Subject {
    let own = Fresh::new(kind_of(recto)).open().await;
    own.apply(&parse(USERS)).await.unwrap();
    Subject::new(&own, "users")
}

impl Subject {
    fn user(&self, name: &str, email: Option<&str>) -> DynamicRecord {
        self.record(&self.row(&json!({ "name": name, "email": email })))
    }

    async fn put_user(&self, name: &str, email: Option<&str>) -> Result<(), Error> {
        self.collection.put(&self.user(name, email)).await.map(drop)
    }
}

/// Asserts that a change was rejected because another record, `holder`, already has the unique
/// value.
fn assert_taken(error: &Error, field: &str, holder: &str) {
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(error.field(), Some(field), "{error}");
    let hint = error.hint().unwrap();
    assert!(
        hint.starts_with(&format!("it is the record ({holder});")),
        "{hint}"
    );
    assert!(!error.is_retryable());
}

pub(crate) async fn values_have_one_holder(recto: Recto) {
    let users = users(&recto).await;
    users.put_user("ada", Some("ada@x")).await.unwrap();
    // Another put of the same record must succeed, and its other fields can change.
    users.put_user("ada", Some("ada@x")).await.unwrap();
    let noted = users.collection.update("ada".to_owned()).set("note", "first");
    noted.await.unwrap();
    let error = users.put_user("bob", Some("ada@x")).await.unwrap_err();
    assert_taken(&error, "email", "ada");
    let inserted = users.collection.insert(&users.user("bob", Some("ada@x"))).await;
    assert_taken(&inserted.unwrap_err(), "email", "ada");
    assert!(users.collection.get("bob".to_owned()).await.unwrap().is_none());
    users.put_user("bob", Some("bob@x")).await.unwrap();
    let update = users.collection.update("bob".to_owned()).set("email", "ada@x");
    assert_taken(&update.await.unwrap_err(), "email", "ada");
    let bob = users.collection.get("bob".to_owned()).await.unwrap().unwrap();
    assert_eq!(bob.get("email"), Some(&Value::Text("bob@x".into())));
}

pub(crate) async fn values_are_free_after_a_change_and_a_deletion(recto: Recto) {
    let users = users(&recto).await;
    for round in 0..3 {
        users.put_user("ada", Some("one@x")).await.unwrap();
        users.put_user("ada", Some("two@x")).await.unwrap();
        users.put_user("bob", Some("one@x")).await.unwrap();
        assert_taken(
            &users.put_user("ada", Some("one@x")).await.unwrap_err(),
            "email",
            "bob",
        );
        users.collection.delete("ada".to_owned()).await.unwrap();
        users.put_user("bob", Some("two@x")).await.unwrap();
        let nulled = users.collection.update("bob".to_owned());
        nulled.set("email", Literal::Null).await.unwrap();
        users
            .put_user(&format!("carl {round}"), Some("two@x"))
            .await
            .unwrap();
        users.collection.delete(format!("carl {round}")).await.unwrap();
    }
}

pub(crate) async fn null_is_not_unique(recto: Recto) {
    let users = users(&recto).await;
    for name in ["ada", "bob", "carl"] {
        let row = json!({ "name": name, "tenant": "acme" });
        let record = users.record(&users.row(&row));
        users.collection.put(&record).await.unwrap();
    }
}

pub(crate) async fn several_fields_are_unique_together(recto: Recto) {
    let users = users(&recto).await;
    let user = |name: &str, tenant: &str, slug: &str| {
        users.record(&users.row(&json!({ "name": name, "tenant": tenant, "slug": slug })))
    };
    for (name, tenant, slug) in [
        ("ada", "acme", "a"),
        ("bob", "acme", "b"),
        ("carl", "corp", "a"),
        ("dora", "acmea", ""),
    ] {
        users.collection.put(&user(name, tenant, slug)).await.unwrap();
    }
    let error = users.collection.put(&user("eve", "corp", "a")).await.unwrap_err();
    assert_taken(&error, "tenant", "carl");
    assert!(error.message().contains("tenant, slug"), "{error}");
}

pub(crate) async fn numbers_are_unique_by_their_value(recto: Recto) {
    let users = users(&recto).await;
    let user =
        |name: &str, balance: &str| users.record(&users.row(&json!({ "name": name, "balance": balance })));
    users.collection.put(&user("ada", "0.1")).await.unwrap();
    let error = users.collection.put(&user("bob", "0.10")).await.unwrap_err();
    assert_taken(&error, "balance", "ada");
}

pub(crate) async fn values_that_cannot_be_claimed_are_refused(recto: Recto) {
    let users = users(&recto).await;
    let email = "x".repeat(10_000);
    let error = users.put_user("ada", Some(&email)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::LimitExceeded, Some("email")),
        "{error}"
    );
    assert!(error.message().contains("email is too large"), "{error}");
    assert!(users.collection.get("ada".to_owned()).await.unwrap().is_none());
}

pub(crate) async fn an_empty_text_is_unique(recto: Recto) {
    let users = users(&recto).await;
    users.put_user("ada", Some("")).await.unwrap();
    assert_taken(
        &users.put_user("bob", Some("")).await.unwrap_err(),
        "email",
        "ada",
    );
    // The store encodes an empty value in an escaped form that looks like `\0`. The constraint must
    // still treat both as different.
    users.put_user("bob", Some("\0")).await.unwrap();
    users.put_user("ada", Some("\0\0")).await.unwrap();
    assert_taken(
        &users.put_user("carl", Some("\0")).await.unwrap_err(),
        "email",
        "bob",
    );
    users.put_user("carl", Some("")).await.unwrap();
}

pub(crate) async fn records_that_expire_free_their_values(recto: Recto) {
    let users = users(&recto).await;
    let ada = users.user("ada", Some("ada@x"));
    // The lifetime must be longer than two changes take.
    let seconds = match kind_of(&recto) {
        Kind::Embedded => 1,
        Kind::Cassandra => 8,
    };
    users
        .collection
        .put(&ada)
        .lives_for(Duration::from_secs(seconds))
        .await
        .unwrap();
    assert_taken(
        &users.put_user("bob", Some("ada@x")).await.unwrap_err(),
        "email",
        "ada",
    );
    let mut taken = users.put_user("bob", Some("ada@x")).await;
    while taken.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        taken = users.put_user("bob", Some("ada@x")).await;
    }
    // After bob took the value, a put of ada's expired record must not take it back. A change or
    // deletion of her record must not free the value.
    assert_taken(&users.collection.put(&ada).await.unwrap_err(), "email", "bob");
    users.put_user("ada", None).await.unwrap();
    users.collection.delete("ada".to_owned()).await.unwrap();
    assert_taken(
        &users.put_user("carl", Some("ada@x")).await.unwrap_err(),
        "email",
        "bob",
    );
}

/// Checks that exactly one of several records gets a unique value that all of them request
/// concurrently.
pub(crate) async fn one_of_many_gets_a_value(recto: Recto) {
    const ROUNDS: usize = 30;
    let users = users(&recto).await;
    for round in 0..ROUNDS {
        let email = format!("{round}@x");
        let wants = |number: usize| {
            let (users, email) = (&users, &email);
            async move { users.put_user(&format!("{round} {number}"), Some(email)).await }
        };
        let ended = futures::future::join_all((0..6).map(wants)).await;
        let done = ended.iter().filter(|one| one.is_ok()).count();
        assert_eq!(done, 1, "{ended:?}");
        for error in ended.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
    }
}

/// Checks a unique value that several records take and release concurrently. No two records may
/// have it at the same time, and at the end it must be free.
pub(crate) async fn a_value_goes_round(recto: Recto) {
    const TURNS: usize = 40;
    let users = users(&recto).await;
    let goes = |number: usize| {
        let users = &users;
        async move {
            let (name, mut had) = (format!("round {number}"), 0);
            for turn in 0..TURNS {
                match users.put_user(&name, Some("it@x")).await {
                    Ok(()) => had += 1,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                }
                if turn % 2 == 0 {
                    users.collection.delete(name.clone()).await.unwrap();
                } else {
                    users.put_user(&name, None).await.unwrap();
                }
            }
            had
        }
    };
    let had: usize = futures::future::join_all((0..4).map(goes))
        .await
        .into_iter()
        .sum();
    assert!(had > 0);
    users.put_user("last", Some("it@x")).await.unwrap();
}

pub(crate) async fn a_load_rejects_rows_whose_values_are_taken(recto: Recto) {
    let users = users(&recto).await;
    users.put_user("ada", Some("ada@x")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, rejects) = (folder.path().join("users.csv"), folder.path().join("rejects.csv"));
    let rows = "name,email\nbob,bob@x\ncarl,ada@x\ndora,bob@x\neve,eve@x\nada,ada@x\n";
    std::fs::write(&file, rows).unwrap();
    let request = LoadRequest {
        file,
        collections: vec!["users".to_owned()],
        rejects: Some(rejects.clone()),
        ..LoadRequest::default()
    };
    let session = LocalSession::new(users.recto.clone());
    session.tools().unwrap().load(&request, &|_| {}).await.unwrap();
    let rejected = std::fs::read_to_string(&rejects).unwrap();
    let is_there = async |name: &str| users.collection.get(name.to_owned()).await.unwrap().is_some();
    assert!(is_there("eve").await && !is_there("carl").await);
    // Two rows of the file have the same unique value, so exactly one of them must be loaded.
    assert_ne!(is_there("bob").await, is_there("dora").await);
    assert_eq!(rejected.lines().count(), 3, "{rejected}");
    assert!(rejected.contains("carl,ada@x"), "{rejected}");
    assert!(
        rejected.contains("another record of users has this email"),
        "{rejected}"
    );
}

pub(crate) async fn a_copy_has_the_claims(recto: Recto) {
    let users = users(&recto).await;
    users.put_user("ada", Some("ada@x")).await.unwrap();
    users.put_user("bob", None).await.unwrap();
    let other = Fresh::new(kind_of(&recto)).open().await;
    let request = CopyRequest::default();
    let copied = users.recto.copy_to(&other, &request, &|_| {}).await.unwrap();
    assert!(copied.collections[0].is_equal());
    let copied = Subject::new(&other, "users");
    assert_taken(
        &copied.put_user("carl", Some("ada@x")).await.unwrap_err(),
        "email",
        "ada",
    );
    copied.collection.delete("ada".to_owned()).await.unwrap();
    copied.put_user("carl", Some("ada@x")).await.unwrap();
}

/// Checks that `verify` finds a missing claim and a superfluous claim, and repairs both. A claim is
/// a stored row that reserves a unique value for a record.
pub(crate) async fn claims_are_compared_with_records(recto: Recto) {
    let users = users(&recto).await;
    for (name, email) in [("ada", Some("ada@x")), ("bob", Some("bob@x")), ("carl", None)] {
        users.put_user(name, email).await.unwrap();
    }
    let verify = async |repair| {
        let request = VerifyRequest {
            repair,
            ..VerifyRequest::default()
        };
        let report = users.recto.verify(&request, &|_| {}).await.unwrap();
        let of_email = report.views.iter().find(|view| view.view == "unique (email)");
        let found = of_email.unwrap().clone();
        assert_eq!(report.wrong(), found.wrong(), "{report:?}");
        (
            found.records,
            found.entries,
            found.missing,
            found.orphan,
            found.repaired,
        )
    };
    assert_eq!(verify(false).await, (2, 2, 0, 0, 0));
    let bob = owner_of(&users, "bob@x").await;
    set_claim(&users, "bob@x", None).await;
    set_claim(&users, "dora@x", Some(bob)).await;
    assert_eq!(verify(false).await, (2, 2, 1, 1, 0));
    // The repair adds the missing claim before it counts the claims, so the count is 3.
    assert_eq!(verify(true).await, (2, 3, 1, 1, 2));
    assert_eq!(verify(false).await, (2, 2, 0, 0, 0));
    assert_taken(
        &users.put_user("eve", Some("bob@x")).await.unwrap_err(),
        "email",
        "bob",
    );
    users.put_user("dora", Some("dora@x")).await.unwrap();
}

/// Returns the table of the claims (reservations) of email addresses, and the partition of the
/// claim of `email`.
async fn claims_of(users: &Subject, email: &str) -> (Arc<Table>, Cells) {
    let tables = users.recto.store().list_tables().await.unwrap();
    let mut tables = tables.into_iter();
    let is_it = |table: &Table| {
        let is_unique = table.name().starts_with("users_unique_");
        is_unique && table.columns()[0].name == "email"
    };
    let table = tables.find(is_it).unwrap();
    (Arc::new(table), std::iter::once(Some(email.as_bytes())).collect())
}

/// Returns the cells of the claim of an email address, which identify the record that has the
/// address.
async fn owner_of(users: &Subject, email: &str) -> Cells {
    let (table, partition) = claims_of(users, email).await;
    let read = PointRead {
        table,
        partition,
        clustering: Cells::new(),
    };
    let snapshot = users.recto.store().snapshot().unwrap();
    let found = snapshot.get(&read, &ReadOptions::default()).await.unwrap();
    let row = found.rows.iter().next().unwrap();
    [row.get(1), row.get(2)].into_iter().collect()
}

/// Inserts a claim (reservation of a unique value) with the given cells if none exists. If `cells`
/// is `None`, deletes the existing claim.
async fn set_claim(users: &Subject, email: &str, cells: Option<Cells>) {
    let (table, partition) = claims_of(users, email).await;
    let clustering = Cells::new();
    let expected = match &cells {
        Some(_) => None,
        None => owner_of(users, email).await.get(0).map(<[u8]>::to_vec),
    };
    let operation = match cells {
        Some(cells) => Operation::Put {
            clustering,
            cells,
            replace: true,
        },
        None => Operation::DeleteRow { clustering },
    };
    let cas = Cas {
        table,
        partition,
        conditions: vec![CasCondition {
            row: RowAddress::Row(Cells::new()),
            column: 0,
            expected,
        }],
        mutations: vec![Mutation {
            operation,
            stamp: None,
            ttl_seconds: None,
        }],
    };
    let outcome = users.recto.store().cas(cas, WriteOptions::default()).await;
    assert!(matches!(outcome, Ok(CasOutcome::Applied)), "{outcome:?}");
}

/// Checks that a unique constraint can be added to existing records. If two records have the same
/// values, the error names both until one of them changes.
pub(crate) async fn fields_of_records_that_are_there_become_unique(recto: Recto) {
    let users = users(&recto).await;
    let with_notes = USERS.replace(r#"[["email"], "#, r#"[["email"], ["note"], "#);
    let note = async |name: &str, note: &str| {
        let row = json!({ "name": name, "email": format!("{name}@x"), "note": note });
        users.collection.put(&users.record(&users.row(&row))).await
    };
    for (name, text) in [("ada", "one"), ("bob", "two"), ("carl", "one"), ("dora", "three")] {
        note(name, text).await.unwrap();
    }
    let before = users
        .collection
        .get_versioned("bob".to_owned())
        .await
        .unwrap()
        .unwrap();
    for _ in 0..2 {
        let error = users.recto.apply(&parse(&with_notes)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        let message = error.message();
        assert!(message.starts_with("1 records of users"), "{message}");
        assert!(
            message.contains("(ada)") && message.contains("(carl)"),
            "{message}"
        );
    }
    // Applying the constraint failed, but new writes must already obey it.
    assert_taken(&note("eve", "two").await.unwrap_err(), "note", "bob");
    note("carl", "four").await.unwrap();
    note("ada", "one").await.unwrap();
    users.recto.apply(&parse(&with_notes)).await.unwrap();
    assert_taken(&note("carl", "one").await.unwrap_err(), "note", "ada");
    let after = users
        .collection
        .get_versioned("bob".to_owned())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(after.version, before.version, "records stay as they are");
}

/// Record type for the collection `users`, which lacks the constraints, the view and some fields.
#[derive(Debug, Record)]
#[record(collection = "users", key = ["name"])]
struct User {
    name: String,
    email: Option<String>,
}

pub(crate) async fn a_type_keeps_constraints_it_does_not_name(recto: Recto) {
    let users = users(&recto).await;
    let user = |name: &str| User {
        name: name.to_owned(),
        email: Some("ada@x".to_owned()),
    };
    let typed = users.recto.collection::<User>().unwrap();
    typed.put(&user("ada")).await.unwrap();
    let generation = users.recto.generation();
    let applied = users
        .recto
        .apply(&recto::schema_of([User::collection()]))
        .await
        .unwrap();
    assert_eq!(
        (applied.generation, applied.changes.len()),
        (generation, 0),
        "{applied:?}"
    );
    for kept in ["unique (email)", "unique (tenant, slug)", "view by_note"] {
        let kept = format!("{kept} of collection users");
        assert!(applied.kept.contains(&kept), "{applied:?}");
    }
    assert_taken(&typed.put(&user("bob")).await.unwrap_err(), "email", "ada");
    // The constraint must also apply to inserts.
    let typed = users.recto.collection::<User>().unwrap();
    assert_taken(&typed.insert(&user("bob")).await.unwrap_err(), "email", "ada");
}

pub(crate) async fn constraints_are_removed_by_name_only(recto: Recto) {
    let users = users(&recto).await;
    let tenant =
        |name: &str| users.record(&users.row(&json!({ "name": name, "tenant": "acme", "slug": "a" })));
    users.put_user("ada", Some("ada@x")).await.unwrap();
    users.collection.put(&tenant("carl")).await.unwrap();
    let without = parse(&USERS.replace(
        r#"[["email"], ["tenant", "slug"], ["balance"]]"#,
        r#"["balance"]"#,
    ));
    let plan = users.recto.plan(&without).await.unwrap();
    assert!(plan.changes.is_empty() && plan.rejected.is_empty(), "{plan:?}");
    assert!(
        plan.kept
            .contains(&"unique (email) of collection users".to_owned()),
        "{plan:?}"
    );
    users.recto.apply(&without).await.unwrap();
    assert_taken(
        &users.put_user("bob", Some("ada@x")).await.unwrap_err(),
        "email",
        "ada",
    );
    for (name, reason) in [
        ("users.unique.balance", "the schema still has it"),
        ("users.unique.mail", "users.unique.tenant,slug"),
        ("users.unique.tenant", "users.unique.tenant,slug"),
        ("users.unique", "users.unique.email"),
    ] {
        let options = ApplyOptions::new().remove(name);
        let error = users.recto.apply_with(&without, &options).await.unwrap_err();
        assert!(error.message().contains(reason), "{name}: {error}");
    }
    // The fields of the constraint may be in any order, and its name may have the form that
    // `verify` prints.
    let options = ApplyOptions::new().remove("users.unique (slug, tenant)");
    let applied = users.recto.apply_with(&without, &options).await.unwrap();
    assert_eq!(
        applied.changes,
        ["collection users: unique (tenant, slug) removed"]
    );
    users.collection.put(&tenant("dora")).await.unwrap();
    assert_taken(
        &users.put_user("bob", Some("ada@x")).await.unwrap_err(),
        "email",
        "ada",
    );
}

pub(crate) async fn the_order_of_constraints_says_nothing(recto: Recto) {
    let users = users(&recto).await;
    let turned = USERS.replace(
        r#"[["email"], ["tenant", "slug"], ["balance"]]"#,
        r#"["balance", "email", ["slug", "tenant"]]"#,
    );
    let applied = users.recto.apply(&parse(&turned)).await.unwrap();
    assert!(
        applied.changes.is_empty() && applied.kept.is_empty(),
        "{applied:?}"
    );
}

pub(crate) async fn fields_are_unique_no_more(recto: Recto) {
    let users = users(&recto).await;
    users.put_user("ada", Some("ada@x")).await.unwrap();
    let without = parse(&USERS.replace(r#"[["email"], "#, "["));
    let remove = ApplyOptions::new().remove("users.unique.email");
    let plan = users.recto.plan_with(&without, &remove).await.unwrap();
    assert_eq!(plan.changes, ["collection users: unique (email) removed"]);
    users.recto.apply_with(&without, &remove).await.unwrap();
    users.put_user("bob", Some("ada@x")).await.unwrap();
    // Apply the removed constraint again. This must fail, because both records have the same email,
    // and the error must name both records. After the deletion of one record, it must succeed.
    let error = users.recto.apply(&parse(USERS)).await.unwrap_err();
    assert!(
        error.message().contains("(ada)") && error.message().contains("(bob)"),
        "{error}"
    );
    users.collection.delete("ada".to_owned()).await.unwrap();
    users.recto.apply(&parse(USERS)).await.unwrap();
    assert_taken(
        &users.put_user("ada", Some("ada@x")).await.unwrap_err(),
        "email",
        "bob",
    );
    let generation = users.recto.generation();
    users.recto.apply(&parse(USERS)).await.unwrap();
    assert_eq!(users.recto.generation(), generation);
}

pub(crate) async fn claims_go_with_their_collection(recto: Recto) {
    let users = users(&recto).await;
    users.put_user("ada", Some("ada@x")).await.unwrap();
    let none = ApplyOptions::default().remove("users");
    users.recto.apply_with(&parse(""), &none).await.unwrap();
    users.recto.apply(&parse(USERS)).await.unwrap();
    let anew = Subject::new(&users.recto, "users");
    anew.put_user("bob", Some("ada@x")).await.unwrap();
}

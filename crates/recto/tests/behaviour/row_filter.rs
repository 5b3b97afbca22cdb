//! Checks that a session with row filters reads and writes only rows that match the filters, in
//! every kind of request.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt as _;
use recto::session::{
    Action, Choices, Count, FieldChoices, JsonRecord, PageRequest, Pages, RecordChange, Records, ScanRequest,
    ScrubPosition, SortChoice,
};
use recto::store::memory::MemoryStore;
use recto::{
    ApplyOptions, Environment, ErrorKind, ErrorPart, LocalSession, OpenOptions, Recto, Session, Stop,
    schema::Schema,
};
use serde_json::json;

const SCHEMA: &str = r#"
[collection.notes]
fields = { tenant = "text", at = "int", author = "text", text = "text" }
key = ["tenant", "at"]
partition = ["tenant"]
order = ["at"]
writes = "overwrite"
"#;

async fn session() -> LocalSession {
    let store = Arc::new(MemoryStore::new(Environment::system()));
    filled(Recto::with_store(store, OpenOptions::new()).await.unwrap()).await
}

async fn filled(recto: Recto) -> LocalSession {
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    let session = LocalSession::new(recto);
    let records = (0..10).flat_map(|at| ["acme", "other"].map(|tenant| record(tenant, at)));
    session.put("notes", records.collect(), None).await.unwrap();
    session
}

fn record(tenant: &str, at: i32) -> JsonRecord {
    let author = if at % 2 == 0 { "ada" } else { "bob" };
    let json = json!({ "tenant": tenant, "at": at, "author": author, "text": "x" });
    json.as_object().unwrap().clone()
}

fn restricted(session: &LocalSession, text: &str) -> LocalSession {
    session.restricted(BTreeMap::from([("notes".to_owned(), text.to_owned())]))
}

fn key(tenant: &str, at: i32) -> Vec<String> {
    vec![tenant.to_owned(), at.to_string()]
}

fn asking(filter: &str) -> PageRequest {
    PageRequest {
        filter: filter.to_owned(),
        page_size: Some(3),
        row_page_tokens: true,
        allow_filter_scan: true,
        ..PageRequest::default()
    }
}

#[tokio::test]
async fn pages_hold_its_rows_only() {
    let all = session().await;
    let acme = restricted(&all, "tenant = \"acme\"");
    for filter in ["", "at >= 2", "tenant = \"acme\"", "author = \"ada\""] {
        let page = acme.page("notes", &asking(filter)).await.unwrap();
        assert_eq!(page.records.len(), 3, "{filter}");
        assert!(
            page.records.iter().all(|record| record["tenant"] == "acme"),
            "{filter}"
        );
    }
    for filter in [
        "tenant = \"other\"",
        "tenant = \"other\" AND at > 1",
        "(tenant = \"other\" OR tenant = \"more\")",
    ] {
        let page = acme.page("notes", &asking(filter)).await.unwrap();
        assert!(
            page.records.is_empty() && page.next_page_token.is_empty(),
            "{filter}"
        );
    }
    for filter in [
        "tenant = \"acme\") OR (tenant = \"other\"",
        "\") OR (tenant = \"other",
    ] {
        let error = acme.page("notes", &asking(filter)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuery, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_counted_that_may_be_seen_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let recto = Recto::open_with(folder.path().join("store"), OpenOptions::new().create());
    let all = filled(recto.await.unwrap()).await;
    let counted = |filter| PageRequest {
        count: Some(Count::Estimate),
        ..asking(filter)
    };
    // If the row filter fixes the partition, Recto can count without hidden rows.
    let acme = restricted(&all, "tenant = \"acme\"");
    for (filter, rows) in [
        ("tenant = \"acme\"", 10),
        ("tenant = \"acme\" AND at >= 3", 7),
        ("tenant = \"other\"", 0),
        ("tenant = \"acme\" OR tenant = \"other\"", 10),
    ] {
        let page = acme.page("notes", &counted(filter)).await.unwrap();
        assert_eq!(page.row_count.unwrap().total_size, rows, "{filter}");
    }
    // If a count would include hidden rows, Recto must reject the request.
    let ada = restricted(&all, "author = \"ada\"");
    for filter in ["tenant = \"acme\"", "tenant = \"acme\" AND at >= 3"] {
        let middle = PageRequest {
            around: Some("50%".to_owned()),
            ..asking(filter)
        };
        let up_to = PageRequest {
            count: Some(Count::UpTo(100)),
            ..asking(filter)
        };
        for request in [counted(filter), up_to, middle] {
            let refused = ada.page("notes", &request).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidQuery);
            assert!(
                refused.to_string().contains("may not see all of them"),
                "{refused}"
            );
        }
    }
}

#[tokio::test]
async fn no_cursor_of_other_rows_opens() {
    let all = session().await;
    let acme = restricted(&all, "tenant = \"acme\"");
    let foreign = all.page("notes", &asking("tenant = \"other\"")).await.unwrap();
    let tokens = foreign.row_page_tokens.unwrap();
    for filter in ["", "tenant = \"acme\"", "tenant = \"other\""] {
        for token in tokens.iter().chain([&foreign.next_page_token]) {
            let next = PageRequest {
                page_token: token.clone(),
                ..asking(filter)
            };
            let around = PageRequest {
                around: Some(token.clone()),
                ..asking(filter)
            };
            for request in [next, around] {
                match acme.page("notes", &request).await {
                    Ok(page) => assert!(page.records.is_empty(), "{filter}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{filter}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn other_records_are_not_there_and_cannot_be_written() {
    let all = session().await;
    let acme = restricted(&all, "tenant = \"acme\"");
    assert!(acme.get("notes", &key("acme", 1)).await.unwrap().is_some());
    assert!(acme.get("notes", &key("other", 1)).await.unwrap().is_none());
    acme.put("notes", vec![record("acme", 20)], None).await.unwrap();
    acme.delete("notes", &key("acme", 20)).await.unwrap();
    let refused = [
        acme.put("notes", vec![record("acme", 21), record("other", 1)], None)
            .await
            .map(drop),
        acme.delete("notes", &key("other", 1)).await,
        acme.write(vec![RecordChange::new(
            "notes",
            Action::Delete { key: key("other", 1) },
        )])
        .await
        .map(drop),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Forbidden);
    }
    assert!(
        all.get("notes", &key("acme", 21)).await.unwrap().is_none(),
        "all or nothing"
    );
    assert!(all.get("notes", &key("other", 1)).await.unwrap().is_some());
    let steps: Vec<_> = acme
        .scan("notes", &ScanRequest::default())
        .try_collect()
        .await
        .unwrap();
    let records: Vec<_> = steps.into_iter().flat_map(|step| step.records).collect();
    assert_eq!(records.len(), 10);
    assert!(records.iter().all(|record| record["tenant"] == "acme"));
}

#[tokio::test]
async fn a_filter_outside_the_key_is_for_reading() {
    let all = session().await;
    let ada = restricted(&all, "author = \"ada\"");
    assert!(ada.get("notes", &key("acme", 1)).await.unwrap().is_none());
    assert!(ada.get("notes", &key("acme", 2)).await.unwrap().is_some());
    // Record 1 belongs to bob, and the put would replace it, so Recto must reject the put.
    let mut hers = record("acme", 1);
    hers.insert("author".to_owned(), "ada".into());
    let error = ada.put("notes", vec![hers], None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    assert!(error.to_string().contains("author"), "{error}");
}

#[tokio::test]
async fn restrictions_add_up_and_leave_the_store_alone() {
    let all = session().await;
    let acme = restricted(&all, "tenant = \"acme\"");
    let nothing = restricted(&acme, "tenant = \"other\"");
    assert!(
        nothing
            .page("notes", &asking(""))
            .await
            .unwrap()
            .records
            .is_empty()
    );
    assert!(nothing.get("notes", &key("other", 1)).await.unwrap().is_none());
    let early = restricted(&acme, "at < 2");
    assert_eq!(early.page("notes", &asking("")).await.unwrap().records.len(), 2);
    let schema = Schema::parse(SCHEMA).unwrap();
    let options = ApplyOptions::new();
    let error = acme.tools().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    let mut position = ScrubPosition::default();
    let error = acme.scrub_step(&mut position, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    all.tools().unwrap().plan(&schema, &options).await.unwrap();
    // If the row filter uses a field that does not exist, Recto must reject every request.
    let wrong = restricted(&all, "owner = \"ada\"");
    let error = wrong.page("notes", &asking("")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    assert!(!error.to_string().contains("ada"), "{error}");
}

/// Number of partitions with hidden rows. [`HIDDEN`] is the number of rows of each partition. A
/// filter on `author` hides all rows except the last row of the last partition. (The store of these
/// tests is slow with partitions of many rows.)
const CROWDS: i32 = 30;
const HIDDEN: i32 = 250;

fn crowd(number: i32) -> String {
    format!("crowd {number:02}")
}

async fn session_with_hidden_rows() -> LocalSession {
    let all = session().await;
    for number in 0..CROWDS {
        let rows = (0..HIDDEN).map(|at| {
            let is_last = (number, at) == (CROWDS - 1, HIDDEN - 1);
            let author = if is_last { "ada" } else { "bob" };
            let json = json!({ "tenant": crowd(number), "at": at, "author": author });
            json.as_object().unwrap().clone()
        });
        all.put("notes", rows.collect(), None).await.unwrap();
    }
    all
}

/// Returns a request for all rows of the partitions that `crowd` names, in the order of the
/// partitions.
fn crowds() -> PageRequest {
    let tenants = (0..CROWDS).map(|number| format!("tenant = \"{}\"", crowd(number)));
    PageRequest {
        order_by: "tenant, at".to_owned(),
        ..asking(&tenants.collect::<Vec<_>>().join(" OR "))
    }
}

#[tokio::test]
async fn hides_the_cost_of_hidden_rows() {
    let all = session().await;
    let pinned = restricted(&all, "tenant = \"acme\"");
    let outside = restricted(&all, "author = \"ada\"");
    for (session, filter, hidden) in [
        (&all, "tenant = \"acme\" AND author = \"ada\"", false),
        (&pinned, "", false),
        (&pinned, "author = \"ada\"", false),
        (&outside, "tenant = \"acme\"", true),
        (&outside, "tenant = \"acme\" AND author = \"ada\"", true),
    ] {
        let page = session.page("notes", &asking(filter)).await.unwrap();
        assert_eq!(page.cost_hidden, hidden, "{filter}");
        let explained = session.explain("notes", &asking(filter), true).await.unwrap();
        assert_eq!(explained.actual.is_none(), hidden, "{filter}");
    }
}

/// Checks that `choices` offers a session only queries that Recto would serve for that session.
#[tokio::test]
async fn offers_only_queries_served_for_the_session() {
    let all = session().await;
    let choices = all.choices("notes", &asking("")).await.unwrap();
    assert_eq!(choices.missing_partition_fields, ["tenant"]);
    let field = |choices: &Choices, name: &str| {
        let found = choices.fields.iter().find(|field| field.name == name);
        found.unwrap().clone()
    };
    let pinned = restricted(&all, "tenant = \"acme\"");
    let choices = pinned.choices("notes", &asking("")).await.unwrap();
    assert!(choices.missing_partition_fields.is_empty());
    assert!(field(&choices, "at").range && field(&choices, "at").sort == SortChoice::Served);
    assert_eq!(field(&choices, "tenant").sort, SortChoice::Pointless);
    // No view serves the row filter on `author`, and a filter scan is not allowed. Recto would
    // reject every page, so `choices` must offer no field.
    let outside = restricted(&all, "author = \"ada\"");
    let strict = PageRequest {
        allow_filter_scan: false,
        ..asking("tenant = \"acme\"")
    };
    let choices = outside.choices("notes", &strict).await.unwrap();
    let is_served = |field: &FieldChoices| field.equality || field.range || field.sort == SortChoice::Served;
    assert!(!choices.fields.iter().any(is_served), "{choices:?}");
    let unknown = pinned.choices("notes", &asking("nothing = 1")).await.unwrap_err();
    assert_eq!(unknown.part(), Some(ErrorPart::Filter));
}

/// Checks that the ends of pages and scan steps do not reveal the number of hidden rows. If pages
/// always ended after the same number of hidden rows, a client could count the hidden rows. The end
/// is therefore random.
#[tokio::test]
async fn does_not_reveal_the_number_of_hidden_rows() {
    let all = session_with_hidden_rows().await;
    let ada = restricted(&all, "author = \"ada\"");
    let (mut whole, mut cut) = (0, None);
    for _ in 0..16 {
        let page = ada.page("notes", &crowds()).await.unwrap();
        match page.stop {
            None => whole += page.records.len(),
            Some(Stop::Scanned) => {
                assert!(page.records.is_empty());
                cut = Some(page.next_page_token);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(whole > 0, "every page was cut");
    // The next page continues at a hidden row, but its plan must not show that row.
    let next = PageRequest {
        page_token: cut.expect("no page was cut"),
        ..crowds()
    };
    let explained = ada.explain("notes", &next, true).await.unwrap();
    assert_eq!(explained, ada.explain("notes", &crowds(), false).await.unwrap());
    assert_eq!(ada.page("notes", &next).await.unwrap().records.len(), 1);

    let some = restricted(&all, "at >= 0");
    let steps: Vec<_> = some
        .scan("notes", &ScanRequest::default())
        .try_collect()
        .await
        .unwrap();
    let sizes: Vec<usize> = steps.iter().map(|step| step.records.len()).collect();
    assert!(
        sizes.iter().filter(|size| **size == 1_000).count() < 2,
        "{sizes:?}"
    );
}

#[tokio::test]
async fn a_query_that_no_view_serves_for_the_filter_says_so() {
    let all = session().await;
    let ada = restricted(&all, "author = \"ada\"");
    let asked = PageRequest {
        filter: "tenant = \"acme\"".to_owned(),
        ..PageRequest::default()
    };
    let error = ada.page("notes", &asked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlan);
    assert!(
        error.to_string().contains("the row filter for notes uses author"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("allow_filter_scan"), "{error:?}");
    assert!(!error.to_string().contains("ada"), "{error}");
    // The error must not recommend a filter scan if a scan would not help.
    let error = ada.page("notes", &PageRequest::default()).await.unwrap_err();
    assert!(!error.to_string().contains("the row filter for"), "{error}");
    for (filter, served) in [
        ("author = \"ada\"", false),
        ("tenant = \"acme\"", true),
        ("at >= 3", true),
        ("tenant = \"acme\" AND author = \"ada\"", false),
    ] {
        assert_eq!(
            all.is_row_filter_served("notes", filter).unwrap(),
            served,
            "{filter}"
        );
    }
}

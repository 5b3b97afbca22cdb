//! Checks that the views that `design` proposes can be applied, and that Recto then serves each
//! query as the proposal says.

use proptest::prelude::*;
use recto::design::{Design, design, parse_queries, with_views};
use recto::schema::{Schema, View};
use recto::session::{PageRequest, Pages as _};
use recto::{DynamicRecord, LocalSession, OpenOptions, Recto};
use serde_json::json;

/// Collections of each write mode, with and without existing views. One schema declares its views
/// as an inline table, to which TOML does not allow additions. The last two collections sort a text
/// by a language (collation), and in the last one the text is in the key.
const SCHEMAS: [&str; 6] = [
    r#"
[collection.tasks]           # that change
fields = { id = "int", team = "text", size = "int", due = "date", open = "boolean" }
key = ["id"]
partition = ["team"]
order = ["-due"]
"#,
    r#"
[collection.tasks]
fields = { id = "int", team = "text", size = "int", due = "date", open = "boolean" }
key = ["team", "id"]
partition = ["team"]
writes = "append"
view = { by_size = { partition = ["size"], order = ["due"], nulls = "skip" } }
"#,
    r#"
[collection.tasks]
fields = { id = "int", team = "text", size = "int", due = "date", open = "boolean" }
key = ["team", "size", "due", "open", "id"]
partition = ["team", "size"]
writes = "overwrite"
"#,
    r#"
[collection.tasks]
fields = { id = "int", team = "text", size = "int", due = "date", open = "boolean" }
key = ["id"]
writes = "append""#,
    r#"
[collection.tasks]
fields = { id = "int", team = "text", size = "int", due = "date", open = "boolean" }
key = ["id"]

[collection.tasks.view.teams]
partition = ["id"]
order = ["team"]
collate = "sv"
fields = []
"#,
    r#"
[collection.tasks]
fields = { id = "int", team = "text", size = "int", due = "date", open = "boolean" }
key = ["size", "team", "id"]
partition = ["size"]
order = ["team"]
writes = "append"

[collection.tasks.view.teams]
partition = ["id"]
order = ["team"]
collate = "sv"
fields = []
"#,
];

/// Returns a strategy for queries of the collections: a filter with values, and a sort.
fn query() -> impl Strategy<Value = (String, String)> {
    let fields = Just(vec!["team", "size", "due", "open"]).prop_shuffle();
    let directions = proptest::collection::vec(any::<bool>(), 4);
    (fields, directions, 0..4_usize, 0..3_usize, 0..5_usize, 0..5_usize).prop_map(
        |(fields, directions, pinned, sorted, listed, ranged)| {
            let value = |field: &str, second: bool| match (field, second) {
                ("team", false) => "\"a\"",
                ("team", true) => "\"b\"",
                ("size", false) => "1",
                ("size", true) => "2",
                ("due", false) => "\"2026-01-01\"",
                ("due", true) => "\"2026-01-02\"",
                (_, false) => "false",
                (_, true) => "true",
            };
            let mut terms = Vec::new();
            for (index, field) in fields[..pinned].iter().enumerate() {
                let (one, other) = (value(field, false), value(field, true));
                terms.push(if index == listed {
                    format!("({field} = {one} OR {field} = {other})")
                } else {
                    format!("{field} = {one}")
                });
            }
            let free = &fields[pinned..];
            // A tuple range consists of the first two fields that the filter does not fix by `=`.
            match (ranged, free) {
                (0, [one, ..]) => terms.push(format!("{one} >= {}", value(one, false))),
                (1, [one, other, ..]) => {
                    let (first, second) = (value(one, false), value(other, false));
                    terms.push(format!("({one}, {other}) > ({first}, {second})"));
                }
                _ => {}
            }
            let sort = free.iter().zip(directions).take(sorted);
            let sort =
                sort.map(|(field, descends)| format!("{field}{}", if descends { " desc" } else { "" }));
            (terms.join(" AND "), sort.collect::<Vec<_>>().join(", "))
        },
    )
}

/// Applies a schema to a new store, and asserts that Recto serves each query as the design says.
async fn assert_served(schema: &str, design: &Design) {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().create();
    let recto = Recto::open_with(folder.path().join("store"), options)
        .await
        .unwrap();
    let schema = Schema::parse(schema).unwrap();
    assert_eq!(schema.collections[0].views.len() + 1, design.tables_after);
    recto.apply(&schema).await.unwrap();
    let session = LocalSession::new(recto);
    for query in &design.queries {
        let request = PageRequest {
            filter: query.asked.filter.clone(),
            order_by: query.asked.order_by.clone(),
            ..PageRequest::default()
        };
        let explained = session.explain("tasks", &request, false).await.unwrap();
        let said = (&*query.view, query.shape.clone(), query.sources);
        let found = (
            &*explained.view,
            explained.shape.to_string(),
            explained.sources.len(),
        );
        assert_eq!(found, said, "{query:?}");
        assert!(explained.filter_scan.is_empty(), "{explained:?}");
        session.page("tasks", &request).await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn proposes_valid_views_that_serve_the_queries(
        which in 0..SCHEMAS.len(),
        queries in proptest::collection::vec(query(), 1..9),
    ) {
        let words: String = queries
            .iter()
            .map(|(filter, order_by)| format!("[[query]]\nfilter = '{filter}'\norder_by = '{order_by}'\n"))
            .collect();
        let text = SCHEMAS[which];
        let schema = Schema::parse(text).unwrap();
        let design = design(&schema.collections[0], &parse_queries(&words).unwrap()).unwrap();
        prop_assert!(design.is_minimal);
        for query in &design.queries {
            // A new view serves a query as one scan, unless the query has lists of values, or
            // tuples with mixed directions.
            let may_be_many = [" OR ", ") > ("].iter().any(|word| query.asked.filter.contains(word));
            prop_assert!(!query.is_new || may_be_many || query.shape == "scan", "{query:?}");
        }
        let views: Vec<View> = design.views.iter().map(|one| one.view.clone()).collect();
        let collation = schema.collections[0].collation_of("team");
        let is_by_team = |view: &&View| view.order.iter().any(|column| column.field == "team");
        prop_assert!(views.iter().filter(is_by_team).all(|view| view.collate.get("team").copied() == collation));
        let with_views = with_views(text, "tasks", &views).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(assert_served(&with_views, &design));
    }
}

/// Checks that a design as JSON has the same information as its text.
#[test]
fn a_design_is_told_to_programs() {
    let schema = Schema::parse(SCHEMAS[0]).unwrap();
    let queries = parse_queries("[[query]]\nfilter = 'due >= ?'\norder_by = '-due'\nper_day = 7").unwrap();
    let design = design(&schema.collections[0], &queries).unwrap();
    let shown = json!(design);
    assert_eq!(shown["queries"][0]["view"], "all");
    assert_eq!(shown["queries"][0]["per_day"], 7);
    assert_eq!(
        (&shown["tables_before"], &shown["tables_after"]),
        (&2.into(), &3.into())
    );
    let instead = &shown["alternatives"][0]["queries"][0];
    assert_eq!(
        instead,
        &json!({ "query": "q1", "how": "merge", "view": "primary", "fields": ["team"] })
    );
}

/// Checks that a proposed view sorts text in the same collation (order of a language) as the
/// collection's other views. The declaration of the view must name the collation.
#[tokio::test]
async fn a_proposed_view_has_the_collation_of_its_field() {
    let text = SCHEMAS[4];
    let schema = Schema::parse(text).unwrap();
    let asked = |words: &str| design(&schema.collections[0], &parse_queries(words).unwrap());
    let proposed = asked("[[query]]\nfilter = 'open = true AND team > \"b\"'\norder_by = '-team'").unwrap();
    let views: Vec<_> = proposed.views.iter().map(|one| one.view.clone()).collect();
    let with_views = with_views(text, "tasks", &views).unwrap();
    assert_eq!(with_views.matches(r#"team = "sv""#).count(), 1, "{with_views}");
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().create();
    let recto = Recto::open_with(folder.path().join("store"), options)
        .await
        .unwrap();
    recto.apply(&Schema::parse(&with_views).unwrap()).await.unwrap();
    let tasks = recto.dynamic("tasks").unwrap();
    for (id, team) in ["Zorn", "Åsa", "bo", "Örjan", "Bea", "ärlig", "adam"]
        .iter()
        .enumerate()
    {
        let record = json!({ "id": id, "team": team, "open": true }).to_string();
        let record = DynamicRecord::from_json_text(tasks.definition(), &record).unwrap();
        tasks.put(&record).await.unwrap();
    }
    let query = tasks
        .query()
        .filter("open = true AND team > \"b\"")
        .order_by("-team");
    let page = query.first(10).await.unwrap();
    let teams: Vec<_> = page
        .items()
        .iter()
        .map(|one| one.to_json()["team"].clone())
        .collect();
    assert_eq!(teams, ["Örjan", "ärlig", "Åsa", "Zorn", "bo", "Bea"]);
    // `design` must reject a query that no view can serve, and name the field.
    let refused = asked("[[query]]\nfilter = 'open = true AND startsWith(team, \"b\")'").unwrap_err();
    assert!(
        refused.to_string().contains("team sorts by the collation sv"),
        "{refused}"
    );
}

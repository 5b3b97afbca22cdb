//! Tests of `recto design`, which needs only files.

use super::*;

const SCHEMA: &str = r#"# Flights, as they are.
[collection.flights]
fields = { carrier = "text", flight = "int", time_hour = "timestamp", origin = "text", dest = "text", tailnum = "text", tags = "set<text>" }
key = ["carrier", "time_hour", "flight"]
partition = ["carrier"]
order = ["-time_hour"]
writes = "append"

[collection.flights.view.by_tailnum]      # stays as it is
partition = ["tailnum"]
order = ["-time_hour"]
"#;

const QUERIES: &str = r#"
[[query]]
name = "airline"
filter = 'carrier = ?'
order_by = "-time_hour"
per_day = 9000

[[query]]
name = "board"
filter = 'origin = "JFK" AND time_hour >= ?'
order_by = "-time_hour"
per_day = 5000

[[query]]
name = "route"
filter = 'origin = ? AND dest = ?'
order_by = "time_hour desc"
per_day = 1200

[[query]]
name = "routes"
filter = 'origin = ? AND (dest = "LAX" OR dest = "SFO")'
order_by = "time_hour"

[[query]]
name = "newest"
order_by = "-time_hour"
"#;

/// Runs `recto design` for the collection of flights, with the texts of a schema file and of a file
/// of queries. Returns the output.
async fn designed(schema: &str, words: &str, further: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("recto.toml"), schema).unwrap();
    std::fs::write(path("queries.toml"), words).unwrap();
    let (schema, queries) = (path("recto.toml"), path("queries.toml"));
    let given = if further.contains(&"--log") {
        vec![]
    } else {
        vec!["--queries", &queries]
    };
    let further: Vec<&str> = further
        .iter()
        .map(|word| if *word == "LOG" { queries.as_str() } else { word })
        .collect();
    let line = [&["design", "flights", "--schema", &schema][..], &given, &further].concat();
    let shown = run(FakeSession::new(), console(), &line).await;
    shown.replace(folder.path().to_str().unwrap(), "FOLDER")
}

#[tokio::test]
async fn views_are_proposed_with_what_they_serve_and_cost() {
    let mut all = designed(SCHEMA, QUERIES, &["--row", "1kB"]).await;
    all.push_str(&designed(SCHEMA, QUERIES, &["--json"]).await);
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn rejects_invalid_queries_with_their_location() {
    let mut all = String::new();
    for queries in [
        "[[query]]\nname = 'one'\nfilter = 'origin = ?'\n[[query]]\nname = 'misspelt'\nfilter = 'orgin = ? AND dest = ?'\n",
        "[[query]]\nfilter = 'origin = ? AND dest = ? AND orgin = ?'\n",
        "[[query]]\nfilter = 'origin = ?'\norder_by = '-departed'\n",
        "[[query]]\nfilter = 'origin = ? AND flight = \"one\"'\n",
        "[[query]]\nfilter = 'origin = ? AND'\n",
        "[[query]]\nfilter = 'origin = \"JFK\" AND origin = \"EWR\"'\n",
        "[[query]]\nname = 'two ranges'\nfilter = 'origin = ? AND flight > ? AND time_hour > ?'\n",
        "[[query]]\nfilter = 'origin = ? AND flight > ?'\norder_by = 'time_hour'\n",
        "[[query]]\nfilter = 'tags = ?'\n",
        "[[query]]\nsort = 'origin'\n",
        "",
    ] {
        all.push_str(&designed(SCHEMA, queries, &[]).await);
    }
    all.push_str(&designed(SCHEMA, "no json", &["--log", "LOG"]).await);
    all.push_str(&designed("[collection.flights]\n", QUERIES, &[]).await);
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn too_many_different_queries_are_refused() {
    let fields: Vec<String> = (0..9).map(|number| format!("f{number} = \"int\"")).collect();
    let schema = format!(
        "[collection.flights]\nfields = {{ id = \"int\", {} }}\nkey = [\"id\"]\n",
        fields.join(", ")
    );
    let pairs = (0..9).flat_map(|one| {
        (0..9)
            .filter(move |other| one != *other)
            .map(move |other| (one, other))
    });
    let queries: String = pairs
        .map(|(one, other)| format!("[[query]]\nfilter = 'f{one} = ?'\norder_by = 'f{other}'\n"))
        .collect();
    let shown = designed(&schema, &queries, &[]).await;
    assert!(
        shown.contains("72 different queries have no view yet; a design has views for at most 32 at a time"),
        "{shown}"
    );
    assert!(shown.ends_with("--- exit 2\n"), "{shown}");
}

#[tokio::test]
async fn a_log_is_designed_for_and_the_schema_is_written() {
    let line = |filter: &str, order_by: &str| {
        format!(
            r#"{{"timestamp":"2026-01-01T00:00:00Z","level":"DEBUG","message":"asked","collection":"flights","filter":"{filter}","order_by":"{order_by}"}}"#
        )
    };
    let log = [
        line("dest = ?", ""),
        line("dest = ?", ""),
        line("dest = ? AND origin = ?", "-time_hour"),
        // Report the next three queries, and design views for the others. No view can serve the
        // three, and users cannot change the queries of a log.
        line("flight >= ? AND time_hour >= ?", ""),
        line("tags = ?", ""),
        line("gate = ?", ""),
        "{".into(),
    ]
    .join("\n");
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("new.toml");
    let shown = designed(
        SCHEMA,
        &log,
        &["--log", "LOG", "--output", output.to_str().unwrap()],
    )
    .await;
    insta::assert_snapshot!(shown.replace(folder.path().to_str().unwrap(), "FOLDER"));
    let written = std::fs::read_to_string(&output).unwrap();
    // The output file has the old schema unchanged, and then the new views.
    assert!(written.starts_with(SCHEMA), "{written}");
    let schema = recto::schema::Schema::parse(&written).unwrap();
    assert_eq!(schema.collections[0].views.len(), 2);
    let beside: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(beside.len(), 1, "nothing is left of how it was written");
}

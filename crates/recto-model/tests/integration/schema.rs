//! Tests of the schema language: accepted text, its meaning, and the errors of rejected text.

use recto_model::schema::{
    Bucket, BucketStrategy, Collection, Declaration, EXAMPLE, Field, MAX_ERRORS, MAX_FIELDS, MAX_KEY_FIELDS,
    MAX_SCHEMA_BYTES, Problem, Schema, Width, WidthUnit, WriteMode,
};
use recto_model::table::{BucketBound, Buckets, ColumnKind, Direction, WriteKind};
use recto_model::types::UdtType;
use recto_model::{Table, Type};

/// Schema that contains every element of the schema language.
const EVERYTHING: &str = r#"
[type.point]
fields = { x = "double", y = "double" }

[type.shape]
fields = { name = "text", points = "frozen<list<frozen<point>>>" }

[collection.suspensions]
fields = { user_id = "uuid", status = "text", occurred_on = "timestamp", reason = "text", email = "text" }
key = ["user_id"]
unique = ["email", ["status", "email"]]

[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-occurred_on", "reason"]
bucket = { time = "occurred_on", width = "1 month" }
nulls = "last"
collate = { reason = "de" }
rounding = "1 minute"
fields = ["user_id", "reason"]
verify = false

[collection.suspensions.view.newest]
order = ["-occurred_on"]
bucket = { target = "10MB", shards = 8 }

[collection.timeline]
fields = { user_id = "uuid", post_id = "timeuuid", content = "text", at = "shape", tags = "map<text, vector<float, 3>>" }
key = ["user_id", "post_id"]
partition = ["user_id"]
order = ["-post_id"]
writes = "append"
bucket = { rows = 20000, keep = "90 days" }

[collection.moves]
fields = { id = "uuid", status = "text", at = "date" }
key = ["id"]
partition = ["status"]
order = ["-at"]
writes = "update"
"#;

fn parse(text: &str) -> Schema {
    Schema::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Retention time of 90 days.
const NINETY_DAYS: Width = Width {
    count: 90,
    unit: WidthUnit::Day,
};

fn error(text: &str) -> String {
    let errors = Schema::parse(text).expect_err(text);
    assert_eq!(errors.errors().len(), 1, "{errors}");
    errors.to_string()
}

/// Returns the schema text of a collection `c` with the given additional lines. The fields are a
/// (int), b (text), t (timestamp) and l (list), of which a and b are the key.
fn with(lines: &str) -> String {
    format!(
        "[collection.c]\nfields = {{ a = \"int\", b = \"text\", t = \"timestamp\", l = \"list<int>\" }}\nkey = [\"a\", \"b\"]\n{lines}\n"
    )
}

fn columns(table: &Table) -> Vec<(&str, ColumnKind)> {
    let columns = table.columns().iter();
    columns
        .map(|column| (column.name.as_str(), column.kind))
        .collect()
}

#[test]
fn base_tables_are_as_declared() {
    let schema = parse(EVERYTHING);
    let regular = ColumnKind::Regular(WriteKind::Plain);
    let timeline = schema.collection("timeline").unwrap();
    assert_eq!(
        columns(&timeline.base_table()),
        [
            ("user_id", ColumnKind::Partition),
            ("post_id", ColumnKind::Clustering(Direction::Descending)),
            ("content", regular),
            ("at", regular),
            ("tags", regular),
        ]
    );
    assert_eq!(timeline.base_table().name(), "timeline");
    assert_eq!(
        timeline.base_table().options().buckets,
        Some(Buckets {
            keep: Some(NINETY_DAYS),
            ..Buckets::from(BucketBound::Rows(20_000))
        })
    );
    assert_eq!(
        timeline.base().canonical(),
        "timeline partition(user_id uuid) order(-post_id timeuuid)"
    );
    assert_eq!(timeline.writes, WriteMode::Append);
    assert_eq!(
        timeline.bucket,
        Some(Bucket {
            strategy: BucketStrategy::Rows(20_000),
            shards: 1,
            keep: Some(NINETY_DAYS)
        })
    );
    // In an `update` collection, the declared sort order is a view, and each partition of the base
    // table has one record.
    let moves = schema.collection("moves").unwrap();
    assert_eq!(moves.base_table().partition()[0].name, "id");
    assert!(moves.base_table().clustering().is_empty());
    assert_eq!(moves.views[0].name, "primary");
    assert_eq!(moves.views[0].partition, ["status"]);
}

#[test]
fn key_fields_not_named_follow_ascending() {
    let schema = parse(
        "[collection.c]\nfields = { v = \"int\", d = \"int\", c = \"int\", b = \"int\", a = \"int\" }\n\
         key = [\"a\", \"b\", \"c\", \"d\"]\npartition = [\"b\"]\norder = [\"-d\"]\nwrites = \"overwrite\"",
    );
    let order: Vec<String> = schema.collections[0]
        .base()
        .order
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(order, ["-d", "a", "c"]);
    let whole = parse(&with("writes = \"append\""));
    assert_eq!(whole.collections[0].base().partition, ["a", "b"]);
    assert!(whole.collections[0].base().order.is_empty());
}

#[test]
fn canonical_text_gives_back_an_equal_schema() {
    for text in [EVERYTHING, EXAMPLE, ""] {
        let schema = parse(text);
        let canonical = schema.to_toml();
        let again = parse(&canonical);
        assert_eq!(again, schema, "{canonical}");
        assert_eq!(again.to_toml(), canonical);
        assert!(schema.difference(&again).is_empty());
    }
}

#[test]
fn an_error_shows_its_line_and_what_to_write() {
    assert_eq!(
        error("[collection.é]\nfields = { a = \"int\" }\nkey = [\"a\"]"),
        "schema.toml:1:13: not valid TOML: invalid unquoted key\n   |\n 1 | [collection.é]\n   |             ^\n"
            .replace("invalid unquoted key", &syntax_message("[collection.é]"))
            .trim_end()
    );
    let unknown = "[collection.c]\n# ä\nfileds = { a = \"int\" }\nfields = { a = \"int\" }\nkey = [\"a\"]";
    assert_eq!(
        error(unknown),
        "schema.toml:3:1: unknown key `fileds` in a collection\n   |\n 3 | fileds = { a = \"int\" }\n   | ^^^^^^\n   = help: did you mean `fields`?"
    );
    let errors = Schema::parse(unknown).unwrap_err().in_file("shop.toml");
    assert!(errors.to_string().starts_with("shop.toml:3:1: "));
    assert_eq!(&unknown[errors.errors()[0].span.clone()], "fileds");
    assert!(matches!(errors.errors()[0].problem, Problem::UnknownKey { .. }));
}

fn syntax_message(text: &str) -> String {
    match &Schema::parse(text).unwrap_err().errors()[0].problem {
        Problem::Syntax { message, .. } => message.clone(),
        other => panic!("{other:?}"),
    }
}

/// Checks texts of which each violates exactly one rule. A case consists of the text, a part of the
/// expected error message, and a part of the expected hint.
fn refuses(cases: &[(String, &str, &str)]) {
    for (text, message, help) in cases {
        let shown = error(text);
        assert!(
            shown.contains(message),
            "{text}\n{shown}\nshould contain {message}"
        );
        assert!(shown.contains(help), "{text}\n{shown}\nshould propose {help}");
    }
}

/// Returns the schema text of a collection with the given name, fields and key.
fn named(name: &str, fields: &str, key: &str) -> String {
    format!("[collection.{name}]\nfields = {{ {fields} }}\nkey = {key}")
}

fn append(lines: &str) -> String {
    with(&format!("writes = \"append\"\n{lines}"))
}

/// Returns the schema text of an append-only collection with the partition field `a`, and the given
/// additional lines.
fn grouped(lines: &str) -> String {
    append(&format!("partition = [\"a\"]\n{lines}"))
}

/// Returns the schema text of an updatable collection with a view `v` that has the given lines.
fn view(lines: &str) -> String {
    with(&format!("[collection.c.view.v]\n{lines}"))
}

#[test]
fn names_fields_and_keys_keep_the_rules() {
    let int = "a = \"int\"";
    refuses(&[
        (
            "collections = 1".into(),
            "1:1: unknown key `collections` in a schema",
            "did you mean `collection`?",
        ),
        ("collection = 1".into(), "`collection` must be a table, not 1", ""),
        ("collection.c = 1".into(), "`c` must be a table", ""),
        (
            "[collection]\nfields = { a = \"int\" }\nkey = [\"a\"]".into(),
            "3:1: a collection needs a name",
            "[collection.users]",
        ),
        (
            named("c", "a = int", "[\"a\"]"),
            "2:16: not valid TOML",
            "put text in quotes: \"int\"",
        ),
        (
            named("c", "a = \"int\", a = \"int\"", "[\"a\"]"),
            "duplicate key",
            "once",
        ),
        (named("c", "", "[\"a\"]"), "needs `fields`", "for example"),
        (
            "[collection.c]\nfields = { a = \"int\" }".into(),
            "needs `key`",
            "for example",
        ),
        (
            named("Users", int, "[\"a\"]"),
            "cannot name a collection",
            "`users`",
        ),
        (
            named("recto_a", int, "[\"a\"]"),
            "reserved for Recto",
            "for example `a`",
        ),
        (
            named("c", "a = \"int\", B = \"int\"", "[\"a\"]"),
            "cannot name a field",
            "`b`",
        ),
        (named("c", "a = 1", "[\"a\"]"), "must be a type such as", ""),
        (
            named("c", "a = \"strng\"", "[\"a\"]"),
            "2:17: there is no type `strng`",
            "",
        ),
        (
            named("c", "a = \"integer\"", "[\"a\"]"),
            "no type `integer`",
            "`int`",
        ),
        (named("c", int, "\"a\""), "must be a list of field names", ""),
        (
            named("c", "abc = \"int\"", "[\"abd\"]"),
            "3:8: `key` names `abd`",
            "`abc`?",
        ),
        (
            named("c", "a = \"list<int>\"", "[\"a\"]"),
            "list<int> has no order",
            "",
        ),
        (named("c", int, "[\"a\", \"a\"]"), "`a` occurs twice in key", ""),
    ]);
}

#[test]
fn sort_orders_keep_the_rules() {
    refuses(&[
        (append("partition = []"), "`partition` is empty", "leave it out"),
        (
            append("partition = [\"t\"]"),
            "`partition` names `t`, which is not in the key",
            "declare a view",
        ),
        (
            grouped("order = [\"-t\"]"),
            "`order` names `t`, which is not in the key",
            "",
        ),
        (
            grouped("order = [\"-z\"]"),
            "`order` names `z`, which is not a field",
            "add `z`",
        ),
        (
            grouped("order = [\"b\", \"-b\"]"),
            "`b` occurs twice in order",
            "",
        ),
        (
            grouped("order = [\"a\"]"),
            "`a` is already in the partition",
            "only in `partition`",
        ),
        (
            append("order = [\"-b\"]"),
            "`b` is already in the partition",
            "without `partition`, the whole key",
        ),
        (
            with("writes = \"apend\""),
            "`writes` must be",
            "did you mean `append`?",
        ),
    ]);
}

#[test]
fn options_keep_the_rules() {
    refuses(&[
        (append("nulls = \"first\""), "`nulls` is an option of views", ""),
        (append("verify = true"), "`verify` is an option of views", ""),
        (
            append("unique = [\"b\"]"),
            "`unique` needs conditional writes",
            "writes = \"update\"",
        ),
        (with("unique = [[]]"), "`unique` must be", ""),
        (with("unique = [\"b\", \"b\"]"), "`b` occurs twice in unique", ""),
        (
            append("bucket = { rows = 5 }"),
            "a partition is one record",
            "`partition`",
        ),
        (grouped("bucket = { rows = 0 }"), "`rows` must be", ""),
        (
            grouped("bucket = { rows = 1, target = \"1MB\" }"),
            "`bucket` must be",
            "",
        ),
        (
            grouped("bucket = { size = 1 }"),
            "unknown key `size` in a bucket",
            "",
        ),
        (
            grouped("bucket = { target = \"big\" }"),
            "`target` must be a size",
            "",
        ),
        (
            grouped("bucket = { time = \"b\", width = \"1 day\" }"),
            "`b` is not a time",
            "",
        ),
        (
            grouped("bucket = { time = \"t\", width = \"1 day\" }"),
            "first order field",
            "",
        ),
        (
            grouped("bucket = { rows = 5, shards = 65 }"),
            "`shards` must be a whole number from 1 to 64",
            "",
        ),
        (
            grouped("bucket = { rows = 5, shards = 0 }"),
            "`shards` must be",
            "",
        ),
        (
            grouped("bucket = { rows = 5, keep = \"soon\" }"),
            "`keep` must be",
            "",
        ),
        (
            grouped("bucket = { rows = 5, keep = \"1 day\" }"),
            "`keep` uses the first order field, and `b` is not a time, but text",
            "timestamp",
        ),
        (grouped("bucket = { shards = 2 }"), "`bucket` must be", ""),
        (
            grouped("collate = \"de\""),
            "`collate` is an option of views",
            "declare a view",
        ),
        (
            view("partition = [\"a\"]\norder = [\"b\"]\ncollate = \"de_DE\""),
            "`collate` must be the name of a collation: a language such as",
            "de",
        ),
        (
            view("partition = [\"a\"]\norder = [\"b\"]\ncollate = { b = \"klingon\" }"),
            "not \"klingon\"",
            "",
        ),
        (
            view("partition = [\"b\"]\ncollate = \"de\""),
            "has no such field",
            "",
        ),
        (
            view(
                "partition = [\"a\"]\norder = [\"b\"]\ncollate = \"de\"\n\
                 [collection.c.view.w]\npartition = [\"a\"]\norder = [\"-b\"]",
            ),
            "`b` sorts by its bytes in view `w`, but by the collation \"de\" in view `v`",
            "the same collation of the field",
        ),
        (
            view(
                "partition = [\"a\"]\norder = [\"b\"]\ncollate = \"de\"\n\
                 [collection.c.view.w]\npartition = [\"a\"]\norder = [\"-b\"]\ncollate = { b = \"sv\" }",
            ),
            "`b` sorts by the collation \"sv\" in view `w`, but by the collation \"de\" in view `v`",
            "the same collation of the field",
        ),
    ]);
}

#[test]
fn views_keep_the_rules() {
    refuses(&[
        (view("nulls = \"last\""), "view `v` needs `partition`", ""),
        (view("order = [\"t\"]"), "neither a partition nor a bucket", ""),
        (view("partition = [\"l\"]"), "list<int> has no order", ""),
        (
            view("partition = [\"b\"]\nfields = [\"x\"]"),
            "`fields` names `x`",
            "",
        ),
        (
            view("partition = [\"b\"]\nnulls = \"fist\""),
            "`nulls` must be",
            "`first`?",
        ),
        (
            view("partition = [\"b\"]\norder = [\"t\"]\nrounding = \"soon\""),
            "`rounding` must be",
            "",
        ),
        (
            view("partition = [\"b\"]\norder = [\"t\"]\nrounding = { b = \"1 day\" }"),
            "and `b` is not",
            "",
        ),
        (
            view("partition = [\"b\"]\norder = [\"t\"]\nbucket = { rows = 5, keep = \"1 day\" }"),
            "`keep` is for records that do not move",
            "expiry",
        ),
        (
            append(
                "[collection.c.view.v]\npartition = [\"b\"]\norder = [\"t\"]\nbucket = { rows = 5, keep = \"1 day\" }",
            ),
            "`keep` uses `t`, which a record may lack",
            "nulls = \"skip\"",
        ),
        (
            named("c", "k = \"date\", b = \"text\", d = \"date\"", "[\"k\"]")
                + "\n[collection.c.view.v]\npartition = [\"b\"]\norder = [\"d\", \"k\"]\nrounding = { k = \"1 week\" }",
            "`k` is part of the key",
            "leave it out here",
        ),
        (
            named("c", "k = \"date\", b = \"text\", d = \"date\"", "[\"k\"]")
                + "\n[collection.c.view.v]\npartition = [\"b\"]\norder = [\"d\", \"k\"]\nrounding = \"6 hours\"",
            "`d` is a date",
            "use days, weeks",
        ),
        (
            append("[collection.c.view.v]\npartition = [\"b\"]\norder = [\"t\"]\nrounding = \"1 day\""),
            "`rounding` is for records that move",
            "leave it out",
        ),
        (
            view("partition = [\"b\"]\nverify = 1"),
            "`verify` must be true or false",
            "",
        ),
        (
            view("partition = [\"b\"]\nwrites = \"append\""),
            "unknown key `writes` in a view",
            "",
        ),
        (
            append("[collection.c.view.v]\npartition = [\"b\"]\nverify = false"),
            "`verify` is for records that move",
            "",
        ),
        (
            with("writes = \"overwrite\"\n[collection.c.view.v]\npartition = [\"t\"]"),
            "`partition` names `t`, which is not in the key",
            "never moves",
        ),
        (
            with("partition = [\"t\"]\n[collection.c.view.primary]\npartition = [\"b\"]"),
            "declare the view `primary`",
            "another name",
        ),
        (
            with("[collection.c.view.base]\npartition = [\"b\"]"),
            "`base` is the sort order by the key",
            "another name",
        ),
    ]);
}

#[test]
fn types_keep_the_rules() {
    refuses(&[
        (
            "[type.int]\nfields = { a = \"text\" }".into(),
            "`int` is a CQL type already",
            "",
        ),
        ("[type.t]\n".into(), "type `t` needs `fields`", ""),
        (
            "[type.t]\nfields = { a = \"list<t>\" }".into(),
            "the type contains itself: t → t",
            "",
        ),
        (
            "[type.t]\nfields = { a = \"u\" }\n[type.u]\nfields = { a = \"int\" }".into(),
            "declared after this use",
            "[type.u] above [type.t]",
        ),
        (
            "[type.t]\nfields = { a = \"int\" }\nkey = 1".into(),
            "unknown key `key` in a type",
            "",
        ),
    ]);
    // A user-defined type must not contain itself through another type.
    let cycle =
        Schema::parse("[type.t]\nfields = { a = \"u\" }\n[type.u]\nfields = { a = \"t\" }").unwrap_err();
    assert!(cycle.to_string().contains("t → u → t"), "{cycle}");
}

#[test]
fn all_errors_are_collected_in_order_of_the_text() {
    let text =
        "[collection.A]\nfields = { a = \"itn\", b = \"int\" }\nkey = [\"c\"]\nwrites = 1\n[collection.b]\n";
    let errors = Schema::parse(text).unwrap_err();
    let lines: Vec<usize> = errors.errors().iter().map(|error| error.position.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 5], "{errors}");
}

#[test]
fn views_of_append_collections_may_order_by_any_field() {
    let text = with(
        "writes = \"append\"\n[collection.c.view.v]\npartition = [\"b\"]\norder = [\"-t\"]\nnulls = \"last\"",
    );
    assert_eq!(parse(&text).collections[0].views[0].order[0].to_string(), "-t");
}

#[test]
fn limits_hold() {
    let many = |count: usize| {
        let fields: Vec<String> = (0..count).map(|index| format!("f{index} = \"int\"")).collect();
        format!(
            "[collection.c]\nfields = {{ {} }}\nkey = [\"f0\"]\nwrites = \"append\"",
            fields.join(", ")
        )
    };
    assert_eq!(parse(&many(MAX_FIELDS)).collections[0].fields.len(), MAX_FIELDS);
    assert!(error(&many(MAX_FIELDS + 1)).contains("at most"));
    let keys: Vec<String> = (0..=MAX_KEY_FIELDS)
        .map(|index| format!("\"f{index}\""))
        .collect();
    let wide_key = many(100).replace("[\"f0\"]", &format!("[{}]", keys.join(", ")));
    assert!(error(&wide_key).contains("at most"));
    let wrong: Vec<String> = (0..200).map(|index| format!("x{index} = 1")).collect();
    let errors = Schema::parse(&wrong.join("\n")).unwrap_err();
    assert_eq!(
        (errors.errors().len(), errors.omitted()),
        (MAX_ERRORS, 200 - MAX_ERRORS)
    );
    assert!(errors.to_string().ends_with("… and 150 more"));
    assert!(error(&"#".repeat(MAX_SCHEMA_BYTES + 1)).contains("at most 1048576"));
    // The canonical text of `collate` is long, because it names every order field. A short schema
    // can therefore have a canonical text that exceeds the maximum.
    let names: Vec<String> = (0..31).map(|index| format!("a{index:047}")).collect();
    let fields: Vec<String> = names.iter().map(|name| format!("{name}=\"text\"")).collect();
    let order = format!("[\"{}\"]", names.join("\",\""));
    let collections: Vec<String> = (0..240)
        .map(|index| {
            format!(
                "[collection.c{index}]\nfields={{k=\"int\",{}}}\nkey=[\"k\"]\n[collection.c{index}.view.v]\n\
                 partition=[\"k\"]\norder={order}\ncollate=\"de\"",
                fields.join(",")
            )
        })
        .collect();
    assert!(error(&collections.join("\n")).contains("canonical form"));
}

#[test]
fn types_are_shared_and_may_stand_after_their_users() {
    let schema = parse(
        "[collection.c]\nfields = { a = \"int\", p = \"list<point>\" }\nkey = [\"a\"]\nwrites = \"append\"\n\
         [type.point]\nfields = { x = \"int\" }",
    );
    let point = UdtType {
        name: "point".into(),
        fields: vec![("x".into(), Type::Int)],
    };
    let Type::List(element) = &schema.collections[0].fields[1].ty else {
        panic!("a list");
    };
    assert_eq!(**element, Type::Udt(point.into()));
}

#[test]
fn a_declaration_in_code_is_checked_alike() {
    let field = |name: &str, ty| Field {
        name: name.into(),
        ty,
    };
    let declaration = Declaration {
        name: "c".into(),
        fields: vec![field("a", Type::Int), field("b", Type::Text)],
        key: vec!["a".into(), "b".into()],
        partition: Some(vec!["a".into()]),
        order: vec!["-b".into()],
        writes: WriteMode::Append,
    };
    let collection = Collection::new(declaration.clone()).unwrap();
    let text = "[collection.c]\nfields = { a = \"int\", b = \"text\" }\nkey = [\"a\", \"b\"]\n\
                partition = [\"a\"]\norder = [\"-b\"]\nwrites = \"append\"";
    assert_eq!(*parse(text).collections[0], collection);
    let error = Collection::new(Declaration {
        name: "C".into(),
        key: vec!["x".into()],
        ..declaration
    })
    .unwrap_err();
    // The four errors: the name is invalid, the key names an unknown field, and the partition and
    // the order each have a field that is not in the key.
    assert_eq!(error.problems.len(), 4, "{error}");
}

#[test]
fn reads_and_prints_queue_settings() {
    let text = "[queues]\nrotation_seconds = 3_600\nunits = 0\n\n[collection.c]\nfields = { a = \"int\" }\nkey = [\"a\"]\n";
    let schema = Schema::parse(text).unwrap();
    let said: Vec<_> = schema.queues.said().collect();
    assert_eq!(said, [("rotation_seconds", 3_600), ("units", 0)]);
    let place = schema.queues.position("units").map(|at| (at.line, at.column));
    assert_eq!((place, schema.queues.position("tables")), (Some((3, 9)), None));
    let printed = schema.to_toml();
    assert!(
        printed.starts_with("[queues]\nrotation_seconds = 3600\nunits = 0\n\n[collection.c]\n"),
        "{printed}"
    );
    assert_eq!(Schema::parse(&printed).unwrap(), schema);
    assert!(Schema::parse("[queues]\n").unwrap().queues.is_empty());
    refuses(&[
        (
            "[queues]\nslice = 5".into(),
            "2:1: unknown key `slice` in [queues]",
            "the keys are `rotation_seconds`, `grace_seconds`, `tables`, `units`",
        ),
        (
            "[queues]\nunit = 5".into(),
            "2:1: unknown key `unit` in [queues]",
            "did you mean `units`?",
        ),
        (
            "[queues]\ntables = \"4\"".into(),
            "2:10: `tables` must be a whole number, not \"4\"",
            "",
        ),
        (
            "[queues]\ntables = -1".into(),
            "2:10: `tables` must be a whole number, not -1",
            "",
        ),
        (
            "[queues]\ntables = 4294967296".into(),
            "2:10: `tables` must be a whole number",
            "",
        ),
        ("queues = 5".into(), "1:10: `queues` must be a table, not 5", ""),
    ]);
}

/// Checks that a type in code is rejected if its text does not parse as the same type. A store
/// could not read a schema with such a type again.
#[test]
fn types_built_in_code_are_checked_alike() {
    let with_type = |ty| {
        let field = |name: &str, ty| Field {
            name: name.into(),
            ty,
        };
        Collection::new(Declaration {
            name: "c".into(),
            fields: vec![field("a", Type::Int), field("b", ty)],
            key: vec!["a".into()],
            ..Declaration::default()
        })
    };
    let boxed = |ty| Box::new(ty);
    assert!(with_type(Type::List(boxed(Type::Duration))).is_ok());
    assert!(with_type(Type::Set(boxed(Type::Duration))).is_err());
    assert!(with_type(Type::Vector(boxed(Type::Int), 0)).is_err());
    assert!(with_type(Type::Tuple(Vec::new())).is_err());
    let deep = (0..1_000).fold(Type::Int, |ty, _| Type::List(boxed(ty)));
    assert!(with_type(deep).is_err());
}

#[test]
fn reads_keys_in_their_old_spelling() {
    let view = |key: &str| {
        format!(
            "[queues]\n{}\n\n[collection.c]\nfields = {{ id = \"int\", kind = \"text\", at = \"timestamp\" }}\nkey = [\"id\"]\n\n\
             [collection.c.view.v]\npartition = [\"kind\"]\norder = [\"at\"]\n{key} = \"1 minute\"\n",
            if key == "grain" {
                "slice_seconds = 60\nmargin_seconds = 5"
            } else {
                "rotation_seconds = 60\ngrace_seconds = 5"
            }
        )
    };
    let new = Schema::parse(&view("rounding")).unwrap();
    let old = Schema::parse(&view("grain")).unwrap();
    assert_eq!(old, new);
    assert_eq!(old.to_toml(), new.to_toml());
    let both = view("rounding") + "grain = \"1 hour\"\n";
    let error = Schema::parse(&both).unwrap_err().to_string();
    assert!(error.contains("unknown key `grain` in a view"), "{error}");
}

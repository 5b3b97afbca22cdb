//! Tests of the differences between two schemas, and of the changes that a store with records can
//! apply.

use recto_model::schema::{Change, ChangeKind, Schema};

const BEFORE: &str = r#"
[type.place]
fields = { name = "text", height = "double" }

[collection.posts]
fields = { user = "uuid", post = "timeuuid", content = "text", place = "place" }
key = ["user", "post"]
partition = ["user"]
order = ["-post"]
writes = "append"

[collection.settings]
fields = { name = "text", value = "text" }
key = ["name"]
writes = "overwrite"
"#;

/// Replacements in a schema text: pairs of old text and new text.
type Replacements<'a> = &'a [(&'a str, &'a str)];

/// Returns the changes from the schema `BEFORE` to the schema with the given replacements.
fn changes(replacements: Replacements<'_>) -> Vec<Change> {
    let mut after = BEFORE.to_owned();
    for (from, to) in replacements {
        assert!(after.contains(from), "{from}");
        after = after.replacen(from, to, 1);
    }
    let parse = |text: &str| Schema::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    parse(BEFORE).difference(&parse(&after))
}

fn shown(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| change.kind.to_string()).collect()
}

#[test]
fn changes_only_stated_queue_settings() {
    let parse = |text: &str| Schema::parse(text).unwrap();
    let there = parse("[queues]\nrotation_seconds = 60\nunits = 4");
    let asked = parse("[queues]\nrotation_seconds = 90\ntables = 3");
    assert_eq!(
        shown(&there.difference(&asked)),
        ["queues: rotation_seconds from 60 to 90", "queues: tables 3"]
    );
    assert!(there.difference(&parse("")).is_empty());
}

#[test]
fn additions_are_compatible() {
    let changes = changes(&[
        ("height = \"double\"", "height = \"double\", depth = \"double\""),
        ("content = \"text\",", "content = \"text\", tags = \"set<text>\","),
        (
            "[collection.settings]",
            "[type.pair]\nfields = { a = \"int\" }\n[collection.other]\nfields = { a = \"int\" }\nkey = [\"a\"]\n[collection.settings]",
        ),
    ]);
    assert_eq!(
        shown(&changes),
        [
            "type place: new fields depth",
            "type pair: new",
            "collection posts: new field tags set<text>",
            "collection other: new",
        ]
    );
    assert!(changes.iter().all(|change| change.obstacle.is_none()));
}

/// Checks the descriptions of changes that a store with records must reject, and that each has a
/// reason.
#[test]
fn everything_else_is_not() {
    let cases: &[(Replacements<'_>, &[&str])] = &[
        (
            &[("content = \"text\"", "content = \"blob\"")],
            &["collection posts: field content from text to blob"],
        ),
        (
            &[("content = \"text\", ", "")],
            &["collection posts: field content removed"],
        ),
        (
            &[("value = \"text\"", "val = \"text\"")],
            &["collection settings: field value removed"],
        ),
        (
            &[("height = \"double\"", "height = \"float\"")],
            &["type place: other fields"],
        ),
        (
            &[(
                "name = \"text\", height = \"double\"",
                "height = \"double\", name = \"text\"",
            )],
            &["type place: other fields"],
        ),
        (
            &[(
                "name = \"text\", value = \"text\"",
                "value = \"text\", name = \"text\"",
            )],
            &["collection settings: fields in another order"],
        ),
        (
            &[("\"-post\"", "\"post\"")],
            &["collection posts: order from [-post] to [post]"],
        ),
        (
            &[
                ("order = [\"-post\"]\n", ""),
                ("partition = [\"user\"]", "partition = [\"user\", \"post\"]"),
            ],
            &[
                "collection posts: partition from [user] to [user, post]",
                "collection posts: order from [-post] to []",
            ],
        ),
        (
            &[("\"overwrite\"", "\"append\"")],
            &["collection settings: writes from overwrite to append"],
        ),
        (
            &[(
                "key = [\"name\"]",
                "key = [\"name\", \"value\"]\npartition = [\"name\"]",
            )],
            &[
                "collection settings: key from [name] to [name, value]",
                "collection settings: order from [] to [value]",
            ],
        ),
    ];
    for (replacements, expected) in cases {
        let changes = changes(replacements);
        let refused: Vec<Change> = changes
            .into_iter()
            .filter(|change| change.obstacle.is_some())
            .collect();
        assert_eq!(shown(&refused), *expected);
    }
}

/// Checks that a view can be added to a collection with records.
#[test]
fn other_sort_orders_of_the_same_records_are_possible() {
    let after = "writes = \"append\"\n[collection.posts.view.v]\npartition = [\"content\"]";
    let changes = changes(&[("writes = \"append\"", after)]);
    assert_eq!(shown(&changes), ["collection posts: new view v"]);
    assert_eq!(changes[0].obstacle, None);
}

/// Checks that a collection with records can change the size of its buckets, but cannot add or
/// remove the bucket option.
#[test]
fn buckets_may_become_larger_or_smaller_and_not_come_or_go() {
    let with = |bucket: &str| format!("writes = \"append\"\nbucket = {{ {bucket} }}");
    let of = |before: &str, after: &str| {
        let posts = |text: &str| Schema::parse(&BEFORE.replacen("writes = \"append\"", text, 1)).unwrap();
        let changes = posts(before).difference(&posts(after));
        (shown(&changes), changes[0].obstacle)
    };
    let plain = "writes = \"append\"";
    let (told, obstacle) = of(&with("target = \"1MB\""), &with("target = \"10MB\""));
    assert_eq!(told, ["collection posts: bucket from 1MB to 10MB"]);
    assert_eq!(obstacle, None);
    assert_eq!(of(&with("target = \"1MB\""), &with("rows = 10")).1, None);
    let (told, obstacle) = of(&with("rows = 10, shards = 2"), &with("rows = 10, shards = 3"));
    assert_eq!(
        told,
        ["collection posts: bucket from 10 rows in 2 shards to 10 rows in 3 shards"]
    );
    assert!(obstacle.is_some());
    let kept = |keep: &str| with(&format!("time = \"post\", width = \"1 day\", keep = \"{keep}\""));
    let (told, obstacle) = of(&kept("8 days"), &kept("9 days"));
    assert_eq!(
        told,
        ["collection posts: bucket from 1 day of post kept for 8 days to 1 day of post kept for 9 days"]
    );
    assert_eq!(obstacle, None);
    for other in [
        "time = \"post\", width = \"1 day\"",
        "rows = 10, keep = \"8 days\"",
    ] {
        assert!(of(&kept("8 days"), &with(other)).1.is_some(), "{other}");
    }
    for (before, after) in [(plain, with("rows = 10")), (&with("rows = 10"), plain.to_owned())] {
        assert!(of(before, &after).1.is_some());
    }
}

#[test]
fn a_new_key_field_is_refused_twice_over() {
    let changes = changes(&[
        (
            "name = \"text\", value",
            "name = \"text\", scope = \"text\", value",
        ),
        ("key = [\"name\"]", "key = [\"name\", \"scope\"]"),
    ]);
    assert!(changes.iter().all(|change| change.obstacle.is_some()));
    assert!(
        changes
            .iter()
            .any(|change| matches!(change.kind, ChangeKind::FieldAdded { .. }))
    );
    assert!(
        changes
            .iter()
            .any(|change| matches!(change.kind, ChangeKind::OptionChanged { option: "key", .. }))
    );
}

#[test]
fn rejects_removed_types_and_collections() {
    let before = Schema::parse(BEFORE).unwrap();
    let changes = before.difference(&Schema::default());
    assert_eq!(
        shown(&changes),
        [
            "type place: removed",
            "collection posts: removed",
            "collection settings: removed"
        ]
    );
    assert!(changes.iter().all(|change| change.obstacle.is_some()));
    assert!(
        changes[1]
            .to_string()
            .contains("(not possible: its records would be lost")
    );
    // From an empty schema, all collections are new, which is always possible.
    assert!(
        Schema::default()
            .difference(&before)
            .iter()
            .all(|change| change.obstacle.is_none())
    );
    let mut reordered = before.clone();
    reordered.collections.reverse();
    assert!(before.difference(&reordered).is_empty());
}

/// Checks that recorded fields keep their order, and that new fields follow them, wherever the
/// schema text has them.
#[test]
fn fields_stand_as_recorded() {
    let parse = |text: &str| Schema::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    let names = |schema: &Schema| -> Vec<String> {
        let fields = &schema.collection("posts").unwrap().fields;
        fields.iter().map(|field| field.name.clone()).collect()
    };
    let recorded = parse(BEFORE);
    let written = parse(&BEFORE.replacen(
        r#"content = "text", place = "place""#,
        r#"z = "int", place = "place", a = "int", content = "text""#,
        1,
    ));
    let arranged = written.keeping(&recorded);
    assert_eq!(names(&arranged), ["user", "post", "content", "place", "z", "a"]);
    assert_eq!(
        shown(&recorded.difference(&arranged)),
        [
            "collection posts: new field z int",
            "collection posts: new field a int"
        ]
    );
    assert_eq!(written.keeping(&arranged), arranged);
    assert!(arranged.difference(&written.keeping(&arranged)).is_empty());
    assert_eq!(
        Schema::parse(&arranged.to_toml()).unwrap(),
        arranged,
        "it can be recorded"
    );
    assert_eq!(written.keeping(&Schema::default()), written);
    // Recorded fields that the new schema text does not name must remain.
    let smaller = parse(&BEFORE.replacen(r#"content = "text", "#, r#"z = "int", "#, 1));
    let arranged = smaller.keeping(&recorded);
    assert_eq!(names(&arranged), ["user", "post", "content", "place", "z"]);
    assert_eq!(
        shown(&recorded.difference(&arranged)),
        ["collection posts: new field z int"]
    );
    assert!(
        Schema::default()
            .keeping(&recorded)
            .difference(&recorded)
            .is_empty()
    );
}

const USERS: &str = r#"
[collection.users]
fields = { id = "int", email = "text", tenant = "text", slug = "text" }
key = ["id"]
unique = ["email", ["tenant", "slug"]]
"#;

#[test]
fn unique_constraints_come_and_go_one_by_one() {
    let with = |unique: &str| {
        let text = USERS.replace(r#"["email", ["tenant", "slug"]]"#, unique);
        Schema::parse(&text).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let recorded = with(r#"["email", ["tenant", "slug"]]"#);
    let changes = recorded.difference(&with(r#"["slug", ["tenant", "slug"]]"#));
    assert_eq!(
        shown(&changes),
        [
            "collection users: unique (email) removed",
            "collection users: new unique (slug)"
        ]
    );
    assert!(changes.iter().all(|change| change.obstacle.is_none()));
    // The order of unique constraints, and of the fields of a constraint, must have no meaning.
    let turned = with(r#"[["slug", "tenant"], "email"]"#);
    assert!(recorded.difference(&turned).is_empty());
    assert_eq!(turned.keeping(&recorded), recorded);
}

#[test]
fn unique_constraints_and_buckets_stay() {
    let parse = |text: &str| Schema::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    let recorded = parse(USERS);
    let unnamed = parse(&USERS.replace(r#"unique = ["email", ["tenant", "slug"]]"#, ""));
    assert_eq!(unnamed.keeping(&recorded), recorded);
    let other = parse(&USERS.replace(r#""email", ["#, r#""slug", ["#));
    let kept = other.keeping(&recorded).collections[0].unique.clone();
    assert_eq!(kept, [vec!["email"], vec!["tenant", "slug"], vec!["slug"]]);

    let posts = |bucket: &str| {
        let text = format!("writes = \"append\"\n{bucket}");
        parse(&BEFORE.replacen("writes = \"append\"", &text, 1))
    };
    let recorded = posts(r#"bucket = { rows = 10, keep = "8 days" }"#);
    assert_eq!(posts("").keeping(&recorded), recorded);
    let larger = posts("bucket = { rows = 20 }").keeping(&recorded);
    assert_eq!(larger, posts(r#"bucket = { rows = 20, keep = "8 days" }"#));
    // A collection with another order cannot keep the recorded bucket.
    let turned = BEFORE.replacen("-post", "post", 1);
    assert_eq!(parse(&turned).keeping(&recorded).collections[0].bucket, None);
}

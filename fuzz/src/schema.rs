//! Target for the TOML text of schemas.

use recto_model::schema::{MAX_ERRORS, Schema};

use crate::memory::limited_beside;

pub(crate) const WORDS: &[&str] = &[
    "[collection.",
    "]\n",
    "[type.",
    "fields = { ",
    " }\n",
    "key = [\"",
    "\"]\n",
    "partition = [\"",
    "order = [\"-",
    "writes = \"append\"\n",
    "writes = \"overwrite\"\n",
    "writes = \"update\"\n",
    "view.",
    "nulls = \"first\"",
    "bucket = ",
    "width = ",
    "unique = [",
    "= \"text\"",
    "= \"int\"",
    "= \"uuid\"",
    "= \"timestamp\"",
    "frozen<list<int>>",
    "map<text, int>",
    "vector<float, 3>",
    "tuple<int, text>",
    "set<",
    "collate",
    "shards",
    "\"\"\"",
    "# ",
    "{",
    "}",
    "[",
    "]",
    "'",
    "\\u0000",
];

/// Memory limit of parsing a schema, as a multiple of the length of its text. It is enough for the parser's
/// tree, and for the schema with its tables.
const MEMORY_FACTOR: usize = 150;
/// Memory in bytes that parsing any schema may use in addition: the maximum number of reported errors, with
/// their messages.
const FREE_BYTES: usize = 1 << 20;

/// Checks that a parsed schema does not change when it is written and parsed again. If parsing failed, checks
/// that the errors point into the text.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match limited_beside(FREE_BYTES, text.len(), MEMORY_FACTOR, || Schema::parse(&text)) {
        Ok(schema) => reads_back(&schema),
        Err(errors) => {
            assert!((1..=MAX_ERRORS).contains(&errors.errors().len()));
            let lines: Vec<&str> = text.split('\n').collect();
            for error in errors.errors() {
                assert!(error.span.start <= error.span.end && error.span.end <= text.len());
                let position = error.position;
                assert!((1..=lines.len()).contains(&position.line), "{position:?}");
                let width = lines[position.line - 1].chars().count();
                assert!((1..=width + 1).contains(&position.column), "{position:?}");
            }
            let shown = errors.to_string();
            assert!(
                !shown.chars().any(|one| one.is_control() && one != '\n'),
                "{shown:?}"
            );
        }
    }
}

fn reads_back(schema: &Schema) {
    let printed = schema.to_toml();
    let again = Schema::parse(&printed).unwrap_or_else(|errors| panic!("{errors}\n{printed}"));
    assert_eq!(&again, schema);
    assert_eq!(again.to_toml(), printed);
    assert!(schema.difference(&again).is_empty());
    for collection in &schema.collections {
        let table = collection.base_table();
        assert!(!table.partition().is_empty());
        assert!(!collection.base().canonical().is_empty());
    }
}

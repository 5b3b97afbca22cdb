//! Target for the text of filters and sort orders, which is parsed and bound to a collection.

use std::sync::{Arc, LazyLock};

use recto_model::schema::{Collection, Schema};
use recto_plan::bind;
use recto_plan::error::QueryError;
use recto_plan::text::{TextError, filter, sort};

use crate::memory::limited;

pub(crate) const FILTER_WORDS: &[&str] = &[
    " AND ",
    " OR ",
    "NOT ",
    "startsWith(",
    "(",
    ")",
    ", ",
    " = ",
    " < ",
    " <= ",
    " > ",
    " >= ",
    " != ",
    ":",
    "*",
    "\"",
    "\\u0041",
    "\\ud83d\\ude00",
    "\\n",
    "true",
    "false",
    "null",
    "-",
    "1e5",
    "1e400",
    "0.10",
    "NaN",
    "Infinity",
    "text_f",
    "int_f",
    "double_f",
    "decimal_f",
    "uuid_f",
    "inet_f",
    "blob_f",
    "date_f",
    "time_f",
    "timestamp_f",
    "2024-02-29",
    "2024-02-29T12:00:00Z",
    "12:00:00.5",
    "::1",
    "10.0.0.1",
    "0xff",
    "boolean_f",
    "timeuuid_f",
    "varint_f",
    "float_f",
    "tinyint_f",
    "smallint_f",
    "bigint_f",
    "ascii_f",
];

pub(crate) const SORT_WORDS: &[&str] = &[
    " desc", " asc", ", ", ",", "text_f", "int_f", "double_f", "uuid_f", "DESC", "nulls", "`", "\"", "-", ".",
];

/// Memory limit of parsing, as a multiple of the length of the text.
const MEMORY_FACTOR: usize = 64;

/// Collection with a field of every type that has an order.
static COLLECTION: LazyLock<Arc<Collection>> = LazyLock::new(|| {
    let types = [
        "ascii",
        "text",
        "blob",
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "varint",
        "decimal",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timeuuid",
        "uuid",
        "inet",
    ];
    let fields: Vec<String> = types.iter().map(|ty| format!("{ty}_f = \"{ty}\"")).collect();
    let text = format!(
        "[collection.all]\nfields = {{ {} }}\nkey = [\"text_f\", \"int_f\", \"double_f\", \"uuid_f\"]\n\
         partition = [\"text_f\"]\norder = [\"-int_f\", \"double_f\"]\nwrites = \"overwrite\"\n",
        fields.join(", ")
    );
    let schema = Schema::parse(&text).unwrap_or_else(|errors| panic!("{errors}"));
    Arc::clone(&schema.collections[0])
});

/// Checks that an error of the parser points to characters of the text.
fn inside(text: &str, error: &TextError) {
    let span = error.span;
    assert!(span.start <= span.end && span.end <= text.len(), "{span:?}");
    assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end));
    assert_eq!(error.column, text[..span.start].chars().count() + 1);
    assert!(error.render(text).contains('^'));
}

/// Checks that an error of the binder (which resolves names and values) names a column of the text, or its
/// end.
fn bound_inside(text: &str, error: &QueryError) {
    if let Some(column) = error.column {
        assert!(
            (1..=text.chars().count() + 1).contains(&column),
            "column {column}"
        );
    }
    assert!(!error.to_string().is_empty());
}

pub(crate) fn filter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match limited(text.len(), MEMORY_FACTOR, || filter::parse(&text)) {
        Ok(parsed) => {
            let printed = parsed.to_string();
            let again = filter::parse(&printed).expect("what is printed parses");
            assert_eq!(again, parsed);
            assert_eq!(again.to_string(), printed);
        }
        Err(error) => inside(&text, &error),
    }
    let collection = &*COLLECTION;
    match (
        bind::conditions(collection, &text),
        bind::query(collection, &text, ""),
    ) {
        (Err(error), Err(whole)) => {
            bound_inside(&text, &error);
            bound_inside(&text, &whole);
        }
        (Err(error), Ok(_)) => panic!("a query of conditions that are refused: {error}"),
        (Ok(_), _) => {}
    }
}

pub(crate) fn sort(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match limited(text.len(), MEMORY_FACTOR, || sort::parse(&text)) {
        Ok(parsed) => {
            let printed = sort::print(&parsed);
            let again = sort::parse(&printed).expect("what is printed parses");
            assert_eq!(again, parsed);
            assert_eq!(sort::print(&again), printed);
        }
        Err(error) => inside(&text, &error),
    }
    if let Err(error) = bind::sort_terms(&COLLECTION, &text) {
        bound_inside(&text, &error);
    }
    if let Err(error) = bind::query(&COLLECTION, "", &text) {
        bound_inside(&text, &error);
    }
}

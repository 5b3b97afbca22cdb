//! Property tests with random and damaged schemas: no text causes a panic, and a valid schema can
//! be printed and parsed again.

use proptest::prelude::*;
use recto_model::Type;
use recto_model::schema::{Collection, Declaration, EXAMPLE, Field, Schema, WriteMode};

const EVERYTHING: &str = r#"
[type.point]
fields = { x = "double", y = "frozen<list<double>>" }
[collection.s]
fields = { id = "uuid", status = "text", at = "timestamp", reason = "text", p = "map<text, point>" }
key = ["id"]
partition = ["status"]
order = ["-at"]
unique = ["reason", ["status", "reason"]]
[collection.s.view.v]
partition = ["status"]
order = ["-at", "reason"]
bucket = { time = "at", width = "1 month", shards = 8 }
nulls = "last"
collate = { reason = "de" }
rounding = { at = "1 minute" }
fields = ["id", "reason"]
verify = false
"#;

/// Text fragments that have a meaning in the schema language or in TOML.
const PIECES: [&str; 34] = [
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "\n",
    "-",
    "#",
    "<",
    ">",
    "\\",
    "\u{0}",
    "é",
    "𝄞",
    "\r",
    "[[",
    "\"\"\"",
    "type",
    "collection",
    "key",
    "order",
    "view",
    "list<",
    "frozen<",
    "point",
    "1",
    "true",
    "0x1",
    "\\u00e9",
    "1979-05-27",
];

/// Returns a strategy for schema texts in which some characters are replaced by fragments of
/// [`PIECES`].
fn damaged() -> impl Strategy<Value = String> {
    let damage = (
        any::<prop::sample::Index>(),
        0usize..12,
        prop::sample::select(&PIECES[..]),
    );
    (
        prop::sample::select(vec![EVERYTHING, EXAMPLE]),
        prop::collection::vec(damage, 1..6),
    )
        .prop_map(|(text, damages)| {
            let mut characters: Vec<char> = text.chars().collect();
            for (at, length, piece) in damages {
                let at = at.index(characters.len() + 1);
                let end = (at + length).min(characters.len());
                characters.splice(at..end, piece.chars());
            }
            characters.into_iter().collect()
        })
}

/// Returns a strategy for valid collections with at most eight fields and at most four key fields.
fn collection() -> impl Strategy<Value = Collection> {
    let ty = prop::sample::select(Type::ORDERABLE.to_vec());
    let shape = (
        1usize..5,
        0usize..5,
        0usize..5,
        any::<u8>(),
        any::<bool>(),
        any::<bool>(),
    );
    (prop::collection::vec(ty, 1..9), shape).prop_map(
        |(types, (key, partition, order, directions, append, attached))| {
            let name = |index: usize| format!("f{index}");
            let key = key.min(types.len());
            let partition = partition.min(key);
            let order = if partition == 0 {
                partition
            } else {
                order.min(key - partition)
            };
            let ordered = (partition..partition + order).rev().map(|index| {
                let descending = directions & (1 << index) != 0;
                format!("{}{}", if descending { "-" } else { "" }, name(index))
            });
            let mut collection = Collection::new(Declaration {
                name: "c".into(),
                fields: types
                    .iter()
                    .enumerate()
                    .map(|(index, ty)| Field {
                        name: name(index),
                        ty: ty.clone(),
                    })
                    .collect(),
                key: (0..key).map(name).collect(),
                partition: (partition > 0).then(|| (0..partition).map(name).collect()),
                order: ordered.collect(),
                writes: if append {
                    WriteMode::Append
                } else {
                    WriteMode::Overwrite
                },
            })
            .unwrap_or_else(|error| panic!("{error}"));
            let partition = collection.base_table();
            let is_hashed = partition
                .partition()
                .iter()
                .any(|column| column.ty == Type::Decimal);
            if attached && append && !is_hashed {
                collection.attached = Some("shop.orders".parse().unwrap());
            }
            collection
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damage_never_panics_and_errors_point_into_the_text(text in damaged()) {
        match Schema::parse(&text) {
            Ok(schema) => {
                let canonical = schema.to_toml();
                prop_assert_eq!(Schema::parse(&canonical).unwrap_or_else(|errors| panic!("{canonical}\n{errors}")), schema);
            }
            Err(errors) => {
                prop_assert!(!errors.errors().is_empty());
                prop_assert!(!errors.to_string().is_empty());
                for error in errors.errors() {
                    prop_assert!(text.get(error.span.clone()).is_some(), "{:?}", error);
                    let line = text.split('\n').nth(error.position.line - 1).unwrap();
                    prop_assert!(error.position.column <= line.chars().count() + 1);
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_without_panic(text in ".{0,200}") {
        let _ = Schema::parse(&text).map_err(|errors| errors.to_string());
        let _ = recto_model::schema::parse_type(&text, &[]);
    }

    #[test]
    fn collections_survive_being_printed(collection in collection()) {
        let table = collection.base_table();
        prop_assert_eq!(table.key_len(), collection.key.len());
        prop_assert_eq!(table.columns().len(), collection.fields.len());
        let schema = Schema { types: Vec::new(), collections: vec![collection.into()], ..Schema::default() };
        let again = Schema::parse(&schema.to_toml()).unwrap();
        prop_assert_eq!(again.collections[0].base().canonical(), schema.collections[0].base().canonical());
        prop_assert_eq!(again, schema);
    }
}

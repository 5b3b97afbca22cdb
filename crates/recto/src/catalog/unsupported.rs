//! What a schema declares that this release cannot do.

use std::fmt;

use recto_model::schema::{Collection, Position, Schema, View};

/// Something declared that is part of the language and that this release cannot do yet. `plan` and
/// `apply` refuse it by name.
pub(super) struct Unsupported {
    /// What it is, with the collection: `` unique of collection `users` ``.
    what: String,
    /// Where it stands in the schema's text, if the schema was parsed from one.
    position: Option<Position>,
    /// What to do until it is supported.
    hint: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "{line}:{column}: ")?;
        }
        write!(f, "not supported yet: {} ({})", self.what, self.hint)
    }
}

const BUCKET: &str = "leave it out, and put a field into `partition` that keeps partitions small";
const COLLATE: &str = "leave it out; text sorts by its bytes";
const UNIQUE: &str = "leave it out, or make the fields the key";

/// Everything `schema` declares that this release cannot do yet, in declaration order.
pub(super) fn unsupported(schema: &Schema) -> Vec<Unsupported> {
    schema
        .collections
        .iter()
        .flat_map(|collection| of_collection(collection))
        .collect()
}

fn of_collection(collection: &Collection) -> Vec<Unsupported> {
    let mut all = Declared {
        collection,
        found: Vec::new(),
    };
    if collection.bucket.is_some() {
        all.add("bucket", "bucket", BUCKET);
    }
    if !collection.collate.is_empty() {
        all.add("collate", "collate", COLLATE);
    }
    if !collection.unique.is_empty() {
        all.add("unique", "unique", UNIQUE);
    }
    for view in &collection.views {
        all.add_view(view);
    }
    all.found
}

struct Declared<'a> {
    collection: &'a Collection,
    found: Vec<Unsupported>,
}

impl Declared<'_> {
    fn add(&mut self, what: &str, path: &str, hint: &'static str) {
        self.found.push(Unsupported {
            what: format!("{what} of collection `{}`", self.collection.name),
            position: self.collection.position(path),
            hint,
        });
    }

    fn add_view(&mut self, view: &View) {
        let name = &view.name;
        let options = [
            ("bucket", view.bucket.is_some(), BUCKET),
            ("collate", !view.collate.is_empty(), COLLATE),
        ];
        for (option, declared, hint) in options {
            if declared {
                self.add(
                    &format!("{option} of view `{name}`"),
                    &format!("view.{name}.{option}"),
                    hint,
                );
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use recto_model::schema::EXAMPLE;

    use super::*;

    const BEYOND: &str = r#"
[collection.suspensions]
fields = { user_id = "uuid", status = "text", occurred_on = "timestamp", reason = "text", email = "text" }
key = ["user_id"]
unique = ["email"]

[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-occurred_on", "reason"]
bucket = { time = "occurred_on", width = "1 month" }
nulls = "last"
collate = { reason = "de" }

[collection.timeline]
fields = { user_id = "uuid", post_id = "timeuuid" }
key = ["user_id", "post_id"]
partition = ["user_id"]
order = ["-post_id"]
writes = "append"
bucket = { rows = 20000 }

[collection.moves]
fields = { id = "uuid", status = "text" }
key = ["id"]
partition = ["status"]
writes = "update"
"#;

    fn named(text: &str) -> Vec<String> {
        let schema = Schema::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
        let all = unsupported(&schema);
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_example_needs_nothing_that_is_not_there() {
        assert!(named(EXAMPLE).is_empty());
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_place_and_a_hint() {
        let starts = |all: &[String]| -> Vec<String> {
            let starts = all.iter().map(|text| text.split(" (").next().unwrap().to_owned());
            starts.collect()
        };
        assert_eq!(
            starts(&named(BEYOND)),
            [
                "5:10: not supported yet: unique of collection `suspensions`",
                "10:10: not supported yet: bucket of view `by_status` of collection `suspensions`",
                "12:11: not supported yet: collate of view `by_status` of collection `suspensions`",
                "20:10: not supported yet: bucket of collection `timeline`",
            ]
        );
    }
}

//! What a schema declares that this release cannot do.

use std::fmt;

use recto_buckets::sizing::{MAX_TARGET_BYTES, MIN_TARGET_BYTES};
use recto_model::schema::{Bucket, BucketStrategy, Collection, Position, Schema, View};

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

const KEEP_BESIDE: &str = "leave it out, and give records an expiry: entries of views would stay";
const SIZE: &str = "a bucket has 64KiB to 1GiB";
const COLLATE: &str = "leave it out; text sorts by its bytes";
const UNIQUE: &str = "leave it out, or make the fields the key";

/// Everything `schema` declares that this release cannot do yet, in declaration order.
pub(super) fn unsupported(schema: &Schema) -> Vec<Unsupported> {
    let collections = schema.collections.iter();
    collections.flat_map(|one| of_collection(one)).collect()
}

fn of_collection(collection: &Collection) -> Vec<Unsupported> {
    let mut all = Declared {
        collection,
        found: Vec::new(),
    };
    if has_no_such_size(collection.bucket.as_ref()) {
        all.add("bucket of that size", "bucket", SIZE);
    }
    if is_kept_for_a_time(collection.bucket.as_ref()) && !collection.views.is_empty() {
        all.add("keep of the bucket beside views", "bucket.keep", KEEP_BESIDE);
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

fn has_no_such_size(bucket: Option<&Bucket>) -> bool {
    let sizes = MIN_TARGET_BYTES..=MAX_TARGET_BYTES;
    bucket.is_some_and(
        |bucket| matches!(bucket.strategy, BucketStrategy::Target { bytes } if !sizes.contains(&bytes)),
    )
}

fn is_kept_for_a_time(bucket: Option<&Bucket>) -> bool {
    bucket.is_some_and(|bucket| bucket.keep.is_some())
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
        let mut add = |what: &str, part: &str, hint| {
            self.add(
                &format!("{what} of view `{name}`"),
                &format!("view.{name}.{part}"),
                hint,
            );
        };
        if has_no_such_size(view.bucket.as_ref()) {
            add("bucket of that size", "bucket", SIZE);
        }
        if is_kept_for_a_time(view.bucket.as_ref()) {
            add("keep of the bucket", "bucket.keep", KEEP_BESIDE);
        }
        if !view.collate.is_empty() {
            add("collate", "collate", COLLATE);
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
bucket = { rows = 20000, shards = 8, keep = "90 days" }
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
                "12:11: not supported yet: collate of view `by_status` of collection `suspensions`",
            ]
        );
        let view = "[collection.timeline.view.oldest]\norder = [\"post_id\"]\nbucket = { target = \"10MB\", keep = \"90 days\" }\n";
        let beside = format!("{BEYOND}\n{view}");
        let all = starts(&named(&beside));
        let kept = all
            .iter()
            .filter(|text| text.contains("keep of the bucket of view"));
        assert_eq!(kept.count(), 1);
        let sized = |target: &str| BEYOND.replace("rows = 20000", &format!("target = \"{target}\""));
        for (target, is_refused) in [("63KB", true), ("64KiB", false), ("10MB", false), ("2GB", true)] {
            let all = starts(&named(&sized(target)));
            let refused = all.iter().any(|text| text.contains("bucket of that size"));
            assert_eq!(refused, is_refused, "{target}");
        }
    }
}

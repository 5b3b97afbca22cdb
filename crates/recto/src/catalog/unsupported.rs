//! Declarations of a schema that this release does not support.

use std::borrow::Cow;
use std::fmt;

use recto_model::collation::IS_BUILT_IN;
use recto_model::schema::{Bucket, BucketStrategy, Collection, Position, Schema, SortOrder, View, Width};
use recto_protocol::buckets::sizing::{MAX_TARGET_BYTES, MIN_TARGET_BYTES};

/// Declaration that is valid in the schema language, but that this release does not support yet. `plan` and
/// `apply` reject it by name.
pub(super) struct Unsupported {
    /// Name of the declaration, with its collection: `` unique of collection `users` ``.
    what: String,
    /// Position in the text of the schema, if the schema was parsed from a text.
    position: Option<Position>,
    /// Advice to the user until a release supports the declaration.
    hint: Cow<'static, str>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "{line}:{column}: ")?;
        }
        write!(f, "not supported yet: {} ({})", self.what, self.hint)
    }
}

const SIZE: &str = "use a size from 64KiB to 1GiB";
const COLLATE: &str =
    "use a program with the feature `collation`, or leave the collation out: text then sorts by its bytes";

/// Returns the declarations of `schema` that this release does not support yet, in the order of the
/// schema.
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
        all.add("bucket of this size", "bucket", SIZE);
    }
    all.add_views_that_stay();
    all.add_other_collations();
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

/// Returns the retention time of a sort order, and the field that determines the age of a row. Returns `None`
/// if the sort order keeps its rows forever.
fn kept(arranged: &SortOrder<'_>) -> Option<(Width, String)> {
    let keep = arranged.bucket()?.keep?;
    Some((keep, arranged.order.first()?.field.clone()))
}

struct Declared<'a> {
    collection: &'a Collection,
    found: Vec<Unsupported>,
}

impl Declared<'_> {
    fn add(&mut self, what: &str, path: &str, hint: impl Into<Cow<'static, str>>) {
        self.found.push(Unsupported {
            what: format!("{what} of collection `{}`", self.collection.name),
            position: self.collection.position(path),
            hint: hint.into(),
        });
    }

    /// Adds the views that would still show records after the retention of the base table has deleted them.
    fn add_views_that_stay(&mut self) {
        let collection = self.collection;
        let Some((keep, field)) = kept(&collection.base()) else {
            return;
        };
        for view in &collection.views {
            let of_view = kept(&collection.arranged(view));
            if of_view.is_some_and(|(length, by)| by == field && length.longest_ms() <= keep.longest_ms()) {
                continue;
            }
            let what = format!(
                "keep of the bucket together with view `{}`, which would show removed records",
                view.name
            );
            let hint =
                format!("order the view by {field} first, and give its bucket keep = \"{keep}\", or less");
            self.add(&what, "bucket.keep", hint);
        }
    }

    /// Adds the conflicts between recorded and requested views that sort the same field by different
    /// collations.
    fn add_other_collations(&mut self) {
        let collection = self.collection;
        for conflict in collection.collation_conflicts() {
            let what = format!("two orders of one field ({conflict})");
            self.add(&what, &format!("view.{}.collate", conflict.view), conflict.hint());
        }
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
            add("bucket of this size", "bucket", SIZE);
        }
        if !view.collate.is_empty() && !IS_BUILT_IN {
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
    fn reports_each_feature_with_its_location() {
        let starts = |all: &[String]| -> Vec<String> {
            let starts = all.iter().map(|text| text.split(" (").next().unwrap().to_owned());
            starts.collect()
        };
        let collate = "12:11: not supported yet: collate of view `by_status` of collection `suspensions`";
        let expected: Vec<&str> = (!IS_BUILT_IN).then_some(collate).into_iter().collect();
        assert_eq!(starts(&named(BEYOND)), expected);
        let sized = |target: &str| BEYOND.replace("rows = 20000", &format!("target = \"{target}\""));
        for (target, is_refused) in [("63KB", true), ("64KiB", false), ("10MB", false), ("2GB", true)] {
            let all = starts(&named(&sized(target)));
            let refused = all.iter().any(|text| text.contains("bucket of this size"));
            assert_eq!(refused, is_refused, "{target}");
        }
    }

    /// Checks that a requested view is rejected if a stored view, which stays, sorts a field by
    /// another collation.
    #[test]
    fn a_field_has_one_collation_in_all_views_that_stay() {
        let text = |view: &str, collate: &str| {
            let view = format!(
                "[collection.people.view.{view}]\npartition = [\"id\"]\norder = [\"name\"]\n{collate}"
            );
            format!(
                "[collection.people]\nfields = {{ id = \"int\", name = \"text\" }}\nkey = [\"id\"]\n{view}"
            )
        };
        let parsed = |text: String| Schema::parse(&text).unwrap();
        let conflicts = |asked: &str, recorded: &str| {
            let schema = parsed(text("one", asked)).keeping(&parsed(text("other", recorded)));
            unsupported(&schema)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let (german, swedish) = ("collate = \"de\"", "collate = \"sv\"");
        if IS_BUILT_IN {
            assert_eq!(conflicts(german, german), [""; 0]);
        }
        for (asked, recorded) in [(german, swedish), (german, ""), ("", german)] {
            let refused = conflicts(asked, recorded);
            assert!(
                refused.iter().any(|one| one.contains("two orders of one field")),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn views_of_what_is_kept_for_a_time_are_kept_no_longer() {
        let beside = |order: &str, keep: &str| {
            let view = format!(
                "[collection.timeline.view.oldest]\norder = [\"{order}\"]\nbucket = {{ target = \"10MB\"{keep} }}\n"
            );
            let all = named(&format!("{BEYOND}\n{view}"));
            let kept = all.into_iter().filter(|text| text.contains("keep"));
            kept.collect::<Vec<_>>()
        };
        for (order, keep) in [
            ("post_id", "90 days"),
            ("-post_id", "12 weeks"),
            ("post_id", "2 months"),
        ] {
            let keep = format!(", keep = \"{keep}\"");
            assert_eq!(beside(order, &keep), [""; 0], "{order} {keep}");
        }
        let refused = "20:45: not supported yet: keep of the bucket together with view `oldest`, which would \
                       show removed records of collection `timeline` (order the view by post_id first, and \
                       give its bucket keep = \"90 days\", or less)";
        for (order, keep) in [
            ("post_id", ""),
            ("-post_id", ", keep = \"91 days\""),
            ("post_id", ", keep = \"3 months\""),
        ] {
            assert_eq!(beside(order, keep), [refused], "{order} {keep}");
        }
    }
}

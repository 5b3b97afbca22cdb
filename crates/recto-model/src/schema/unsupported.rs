//! What a schema declares that this release cannot do.

use std::fmt;

use super::model::{Collection, Schema, View, WriteMode};
use super::position::Position;

/// Something declared that is part of the language and that this release cannot do yet. `plan` and
/// `apply` refuse it by name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// What it is, with the collection: `` writes = "update" of collection `users` ``.
    pub what: String,
    /// Where it stands in the schema's text, if the schema was parsed from one.
    pub position: Option<Position>,
    /// What to do until it is supported.
    pub hint: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "{line}:{column}: ")?;
        }
        write!(f, "not supported yet: {} ({})", self.what, self.hint)
    }
}

const WRITES: &str = "say writes = \"overwrite\" or writes = \"append\"";
const VIEW: &str = "leave the view out; a second collection in its arrangement serves the same pages";
const BUCKET: &str = "leave it out, and put a field into `partition` that keeps partitions small";
const NULLS: &str = "leave it out; records without the field are then not in the view";
const COLLATE: &str = "leave it out; text sorts by its bytes";
const UNIQUE: &str = "leave it out, or make the fields the key";

impl Schema {
    /// Everything this schema declares that this release cannot do yet, in declaration order.
    pub fn unsupported(&self) -> Vec<Unsupported> {
        self.collections
            .iter()
            .flat_map(|collection| collection.unsupported())
            .collect()
    }
}

impl Collection {
    /// Everything this collection declares that this release cannot do yet.
    pub fn unsupported(&self) -> Vec<Unsupported> {
        let mut all = Found {
            collection: self,
            found: Vec::new(),
        };
        if self.writes == WriteMode::Update {
            all.add("writes = \"update\"", "writes", WRITES);
        }
        if self.bucket.is_some() {
            all.add("bucket", "bucket", BUCKET);
        }
        if !self.collate.is_empty() {
            all.add("collate", "collate", COLLATE);
        }
        if !self.unique.is_empty() {
            all.add("unique", "unique", UNIQUE);
        }
        for view in &self.views {
            all.add_view(view);
        }
        all.found
    }
}

struct Found<'a> {
    collection: &'a Collection,
    found: Vec<Unsupported>,
}

impl Found<'_> {
    fn add(&mut self, what: &str, path: &str, hint: &'static str) {
        let places = &self.collection.places.0;
        self.found.push(Unsupported {
            what: format!("{what} of collection `{}`", self.collection.name),
            // What is there by default, or was built in code, stands where its collection does.
            position: places.get(path).or_else(|| places.get("")).copied(),
            hint,
        });
    }

    fn add_view(&mut self, view: &View) {
        let name = &view.name;
        self.add(&format!("view `{name}`"), &format!("view.{name}"), VIEW);
        let options = [
            ("bucket", view.bucket.is_some(), BUCKET),
            ("nulls", view.nulls.is_some(), NULLS),
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
